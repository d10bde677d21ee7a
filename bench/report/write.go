package report

import (
	"os"
	"path/filepath"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/page"
)

// marker names the lines of the page between which the report stands.
const marker = "peers"

// plotDir is beside the page.
const plotDir = "performance"

// Write puts the report between the markers of a page, which has them, and draws the plots beside it.
// The first run is reported in full, those of other servers beside it.
func Write(file string, runs []results.Run) error {
	plots, err := writePlots(filepath.Dir(file), runs[0].Cells)
	if err != nil {
		return err
	}
	return page.Write(file, marker, section(runs, plots))
}

// Check tells whether there is a page that a report can be written into.
func Check(file string) error { return page.Check(file, marker) }

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
