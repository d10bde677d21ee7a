package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/txwork/txwork/bench/results"
)

// The page keeps what is before and after these lines.
const (
	begin = "<!-- peers:begin -->"
	end   = "<!-- peers:end -->"
)

// plotDir is beside the page.
const plotDir = "performance"

// Write puts the report between the markers of a page, which has them, and draws the plots beside it.
// The first run is reported in full, those of other servers beside it.
func Write(page string, runs []results.Run) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	plots, err := writePlots(filepath.Dir(page), runs[0].Cells)
	if err != nil {
		return err
	}
	written, err := insert(string(text), section(runs, plots))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(written), 0o644)
}

// Check tells whether there is a page that a report can be written into.
func Check(page string) error {
	text, err := os.ReadFile(page)
	if err == nil {
		_, err = insert(string(text), "")
	}
	if err != nil {
		return fmt.Errorf("no report can be written to %s: %w", page, err)
	}
	return nil
}

// insert replaces what is between the markers.
func insert(page, section string) (string, error) {
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", errors.New("the page lacks the line " + begin + " or, after it, " + end)
	}
	return before + begin + "\n" + section + end + after, nil
}

// writePlots returns their addresses as seen from the page.
func writePlots(dir string, cells []results.Cell) (map[results.Workload]string, error) {
	if err := os.MkdirAll(filepath.Join(dir, plotDir), 0o755); err != nil {
		return nil, err
	}
	plots := map[results.Workload]string{}
	for _, w := range results.Workloads {
		rows := rows(cells, w)
		if len(rows) == 0 {
			continue
		}
		svg, err := picture(w, rows)
		if err != nil {
			return nil, err
		}
		plots[w] = plotDir + "/" + string(w) + ".svg"
		if err := os.WriteFile(filepath.Join(dir, plots[w]), svg, 0o644); err != nil {
			return nil, err
		}
	}
	return plots, nil
}
