package report

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/bench/results"
)

// A series is an entrant with 1, 2, 4 and 8 processes, as far as it was measured.
type series struct {
	label string
	own   bool
	rows  []row // in the order of results.ProcessCounts
}

// byProcesses sorts rows into series, in the order of the best rows.
func byProcesses(rows []row) []series {
	var all []series
	at := map[results.Entrant]int{}
	for _, r := range rows {
		if _, found := at[r.Entrant]; !found {
			at[r.Entrant] = len(all)
			all = append(all, series{label: r.label(), own: r.Peer == own})
		}
	}
	for _, n := range results.ProcessCounts {
		for _, r := range rows {
			if r.processes == n {
				s := &all[at[r.Entrant]]
				s.rows = append(s.rows, r)
			}
		}
	}
	return all
}

func (s series) with(processes int) (row, bool) {
	for _, r := range s.rows {
		if r.processes == processes {
			return r, true
		}
	}
	return row{}, false
}

// extremes returns the rows with the best and the lowest median.
func (s series) extremes() (best, lowest row) {
	best, lowest = s.rows[0], s.rows[0]
	for _, r := range s.rows {
		if r.value.Median > best.value.Median {
			best = r
		}
		if r.value.Median < lowest.value.Median {
			lowest = r
		}
	}
	return best, lowest
}

// processesTable has a column for each number of processes.
func processesTable(_ results.Workload, o results.Options, rows []row) string {
	var b strings.Builder
	b.WriteString("| jobs/s (spread) |")
	for _, n := range results.ProcessCounts {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" lowest / best | runs |\n|---" + strings.Repeat("|--:", len(results.ProcessCounts)+2) + "|\n")
	for _, s := range byProcesses(rows) {
		fmt.Fprintf(&b, "| %s |", describe(results.Drain, o, s.rows[0]))
		for _, n := range results.ProcessCounts {
			cell := "–"
			if r, found := s.with(n); found {
				cell = fmt.Sprintf("%s (%s)", count(r.value.Median), between(r.value, count))
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		best, lowest := s.extremes()
		fmt.Fprintf(&b, " %s | %s |\n", ratio(lowest.value.Median/best.value.Median), s.runs())
	}
	return b.String()
}

// runs says how many runs there were with each number of processes.
func (s series) runs() string {
	fewest, most := s.rows[0].runs, s.rows[0].runs
	for _, r := range s.rows {
		fewest, most = min(fewest, r.runs), max(most, r.runs)
	}
	if fewest == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d–%d", fewest, most)
}

// processesVerdict says how far each entrant falls below its best rate, and where a peer is ahead.
func processesVerdict(_ results.Workload, rows []row) string {
	all := byProcesses(rows)
	var says []string
	for _, s := range all {
		best, lowest := s.extremes()
		says = append(says, fmt.Sprintf("- %s is at its best with %s; with %d it does %.0f %% of that.",
			s.label, processes(best.processes), lowest.processes, 100*lowest.value.Median/best.value.Median))
	}
	return strings.Join(append(says, ahead(all)...), "\n")
}

func ahead(all []series) (says []string) {
	for _, us := range all {
		for _, r := range us.rows {
			for _, s := range all {
				them, found := s.with(r.processes)
				if us.own && found && them.Peer != limit && them.value.Median > r.value.Median {
					says = append(says, fmt.Sprintf("- **With %s %s is ahead of txwork, %s times.**%s",
						processes(r.processes), s.label, ratio(them.value.Median/r.value.Median), overlap(r, them)))
				}
			}
		}
	}
	return says
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
