package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/bench/results"
)

// versions compares runs on other servers with the first one: medians, and their ratios to txwork's.
func versions(runs []results.Run) string {
	if len(runs) < 2 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n### Other versions of PostgreSQL\n\n" +
		`The same on other servers, one run after another on the same machine. Medians, in jobs/s or ms (of latency, p50); in
brackets how many times txwork's on that server.

`)
	b.WriteString("| |")
	for _, run := range runs {
		fmt.Fprintf(&b, " %s |", run.Postgres)
	}
	b.WriteString("\n|---" + strings.Repeat("|--:", len(runs)) + "|\n")
	for _, w := range results.Workloads {
		b.WriteString(versionsOf(w, runs))
	}
	b.WriteString("\n")
	for _, run := range runs {
		fmt.Fprintf(&b, "- %s\n", circumstances(run))
	}
	return b.String()
}

// versionsOf returns the lines of a workload.
func versionsOf(w results.Workload, runs []results.Run) string {
	tables := make([][]row, len(runs))
	for i, run := range runs {
		tables[i] = rows(run.Cells, w)
	}
	var b strings.Builder
	lines := union(tables)
	slices.SortStableFunc(lines, func(a, b row) int { return cmp.Compare(a.processes, b.processes) })
	for _, r := range lines {
		if alone(tables, r) {
			continue
		}
		fmt.Fprintf(&b, "| %s: %s |", titles[w], within(r))
		for _, table := range tables {
			fmt.Fprintf(&b, " %s |", cellOf(w, table, r))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// alone reports whether only one server has the row. Then there is nothing to compare, and the tables above already
// contain it if it is the first server's.
func alone(tables [][]row, r row) bool {
	n := 0
	for _, table := range tables {
		if _, found := same(table, r); found {
			n++
		}
	}
	return n < 2
}

// union returns each row once, those of the first table in its order.
func union(tables [][]row) (all []row) {
	for _, table := range tables {
		for _, r := range table {
			if _, found := same(all, r); !found {
				all = append(all, r)
			}
		}
	}
	return all
}

// same finds the row of the same entrant, with as many processes.
func same(rows []row, of row) (row, bool) {
	for _, r := range rows {
		if r.Entrant == of.Entrant && r.processes == of.processes {
			return r, true
		}
	}
	return row{}, false
}

func within(r row) string {
	if r.processes > 0 {
		return fmt.Sprintf("%s, %d", r.label(), r.processes)
	}
	return r.label()
}

func cellOf(w results.Workload, table []row, of row) string {
	r, found := same(table, of)
	if !found {
		return "–"
	}
	text := count(r.value.Median)
	if w == results.Latency {
		text = millis(r.value.Median)
	}
	of.Entrant = results.Entrant{Peer: own, Profile: ownProfile(table)}
	if us, found := same(table, of); found {
		text += fmt.Sprintf(" (%s)", ratio(r.value.Median/us.value.Median))
	}
	return text
}

func ownProfile(table []row) string {
	us, _ := find(table, own)
	return us.Profile
}

// circumstances describes the conditions that are particular to a run.
func circumstances(run results.Run) string {
	return fmt.Sprintf("PostgreSQL %s: commit %s, %s, `%s`, %d CPUs; %s", run.Postgres, run.Commit, rounds(run.Cells),
		command(run.Options), run.CPUs, run.Settings)
}

func rounds(cells []results.Cell) string {
	most := 0
	for _, c := range cells {
		most = max(most, c.Round)
	}
	if most == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", most)
}
