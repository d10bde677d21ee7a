package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// Peers with a special role in the report.
const (
	own   = "txwork" // the others are compared with it
	limit = "sql"    // not a queue, but the limit of bare SQL
)

// A row is an entrant in one workload.
type row struct {
	results.Entrant
	processes               int // of the workload Processes
	name, version, settings string
	deleted                 bool
	jobs                    int
	runs                    int
	value                   measure.Spread // jobs/s; of latency the p50 in ms
	p99                     measure.Spread // of latency
	wal, serverCPU, client  *float64
	fillWAL                 *float64
}

// rows returns the entrants of a workload, the best first. Cells that failed are left out.
func rows(cells []results.Cell, w results.Workload) []row {
	var rows []row
	for _, group := range groups(cells, w) {
		rows = append(rows, newRow(group))
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if w == results.Latency {
			return cmp.Compare(a.value.Median, b.value.Median)
		}
		return cmp.Compare(b.value.Median, a.value.Median)
	})
	return rows
}

// groups returns the cells of a workload by entrant and number of processes.
func groups(cells []results.Cell, w results.Workload) [][]results.Cell {
	var groups [][]results.Cell
	at := map[results.Key]int{}
	for _, c := range cells {
		if c.Workload != w || c.Error != "" {
			continue
		}
		all := c.Key
		all.Round = 0
		i, found := at[all]
		if !found {
			i = len(groups)
			at[all] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func newRow(cells []results.Cell) row {
	first := cells[0]
	r := row{
		Entrant: first.Entrant, processes: first.Processes, name: first.Name, version: first.Version,
		settings: first.Settings,
		deleted:  first.Deleted, jobs: first.Jobs, runs: len(cells),
	}
	r.value = measure.SpreadBy(cells, func(c results.Cell) float64 {
		if first.Workload == results.Latency {
			return c.P50
		}
		return c.PerSecond
	})
	r.p99 = measure.SpreadBy(cells, func(c results.Cell) float64 { return c.P99 })
	r.wal = middle(cells, func(c results.Cell) *float64 { return &c.Costs.WALBytes })
	r.serverCPU = middle(cells, func(c results.Cell) *float64 { return c.Costs.ServerCPU })
	r.client = middle(cells, func(c results.Cell) *float64 { return &c.Costs.ClientCPU })
	r.fillWAL = middle(cells, func(c results.Cell) *float64 {
		if c.FillCosts == nil {
			return nil
		}
		return &c.FillCosts.WALBytes
	})
	return r
}

// middle returns the median of the known values, and nil if none is known.
func middle(cells []results.Cell, value func(results.Cell) *float64) *float64 {
	var known []float64
	for _, c := range cells {
		if v := value(c); v != nil {
			known = append(known, *v)
		}
	}
	if len(known) == 0 {
		return nil
	}
	m := measure.SpreadOf(known).Median
	return &m
}

// label names the row: a peer with its profile, and txwork and the limit by their names alone.
func (r row) label() string {
	switch r.Peer {
	case own:
		return r.name
	case limit:
		return r.name + " (limit)"
	default:
		return fmt.Sprintf("%s, %s", r.name, r.Profile)
	}
}
