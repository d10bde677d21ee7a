package report

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// table returns a workload's rows as a table. Its headings say what the columns contain.
func table(w results.Workload, o results.Options, rows []row) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	heading := headings(w)
	line(heading)
	b.WriteString("|---" + strings.Repeat("|--:", len(heading)-1) + "|\n")
	us, compared := find(rows, own)
	for _, r := range rows {
		against := "–"
		if compared {
			against = ratio(r.value.Median / us.value.Median)
		}
		line(columns(w, r, describe(w, o, r), against))
	}
	return b.String()
}

func headings(w results.Workload) []string {
	cost := []string{"runs", "WAL bytes/job", "server CPU µs/job", "client CPU µs/job"}
	switch w {
	case results.Latency:
		return []string{"", "p50 ms", "spread", "txwork = 1", "p99 ms", "spread", "runs"}
	case results.Drain, results.DrainDeleted:
		cost[1] = "WAL bytes/job (+ its insert)"
	}
	return append([]string{"", "jobs/s", "spread", "txwork = 1"}, cost...)
}

func columns(w results.Workload, r row, name, against string) []string {
	runs := fmt.Sprint(r.runs)
	if w == results.Latency {
		return []string{name, millis(r.value.Median), between(r.value, millis), against, millis(r.p99.Median),
			between(r.p99, millis), runs}
	}
	wal := known(r.wal)
	if r.fillWAL != nil {
		wal += " (+ " + known(r.fillWAL) + ")"
	}
	return []string{name, count(r.value.Median), between(r.value, count), against, runs, wal, known(r.serverCPU),
		known(r.client)}
}

func between(s measure.Spread, format func(float64) string) string {
	return format(s.Min) + "–" + format(s.Max)
}

// describe returns the label of a row, with what distinguishes the row from others of its table.
func describe(w results.Workload, o results.Options, r row) string {
	name := r.label()
	if (w == results.Drain || w == results.DrainDeleted) && r.jobs != o.Jobs ||
		w == results.Latency && r.jobs != o.LatencyJobs {
		name += fmt.Sprintf(" (%s jobs)", count(float64(r.jobs)))
	}
	if w != results.DrainDeleted && r.deleted {
		name += " (its table deletes done jobs)"
	}
	return name
}
