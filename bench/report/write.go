package report

import (
	"os"
	"path/filepath"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/page"
)

// marker names the lines of the page between which the report is written.
const marker = "peers"

// plotDir is the directory of the plots, next to the page.
const plotDir = "performance"

// Write writes the report between the markers of a page, which must exist, and draws the plots next to the page. The
// first run is reported in full, and those of other servers next to it.
func Write(file string, runs []results.Run) error {
	plots, err := writePlots(filepath.Dir(file), runs[0].Cells)
	if err != nil {
		return err
	}
	return page.Write(file, marker, section(runs, plots))
}

// Check returns an error if the page does not exist or lacks the markers.
func Check(file string) error { return page.Check(file, marker) }

// writePlots writes the plots and returns their addresses relative to the page.
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
