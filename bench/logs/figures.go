package logs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/measure"
)

// figures are those of a line. Costs are for each message; those of a drain are of all consumers together.
type figures struct {
	Single measure.Costs        `json:"single"` // one message a transaction
	Bulk   measure.Costs        `json:"bulk"`   // 1,000 messages a transaction
	Drain  measure.Costs        `json:"drain"`
	Rate   float64              `json:"drained_per_second"` // messages, each to all consumers
	Held   measure.Costs        `json:"drain_under_a_held_snapshot"`
	Stored float64              `json:"bytes_stored"`
	Slow   *measure.Percentiles `json:"latency_at_100"`
	Fast   *measure.Percentiles `json:"latency_at_5000"`
	Behind int64                `json:"not_delivered_at_5000"` // when the arrivals ended
}

// idleFigures are those of 100 subscriptions of which 97 have no messages.
type idleFigures struct {
	Quiet   processors           `json:"nothing_arrives"`
	Busy    processors           `json:"at_100"` // arrivals a second, to 3
	Latency *measure.Percentiles `json:"latency_at_100"`
}

// processors are milliseconds of processor time a second.
type processors struct {
	Server float64 `json:"server_ms"`
	Client float64 `json:"client_ms"`
}

func median(lines []line, figure func(line) float64) float64 {
	var all []float64
	for _, l := range lines {
		all = append(all, figure(l))
	}
	return measure.SpreadOf(all).Median
}

// columns are those of the table.
var columns = []struct {
	head   string
	figure func(line) float64
}{
	{"1 a tx: server µs", func(l line) float64 { return server(l.Single) }},
	{"log bytes", func(l line) float64 { return l.Single.WALBytes }},
	{"1,000 a tx: server µs", func(l line) float64 { return server(l.Bulk) }},
	{"log bytes", func(l line) float64 { return l.Bulk.WALBytes }},
	{"drain: server µs", func(l line) float64 { return server(l.Drain) }},
	{"client µs", func(l line) float64 { return l.Drain.ClientCPU }},
	{"log bytes", func(l line) float64 { return l.Drain.WALBytes }},
	{"messages/s", func(l line) float64 { return l.Rate }},
	{"under a held snapshot: server µs", func(l line) float64 { return server(l.Held) }},
	{"bytes stored", func(l line) float64 { return l.Stored }},
	{"100/s: p50 ms", func(l line) float64 { return l.Slow.P50 }},
	{"p99 ms", func(l line) float64 { return l.Slow.P99 }},
	{"5,000/s: p50 ms", func(l line) float64 { return l.Fast.P50 }},
	{"p99 ms", func(l line) float64 { return l.Fast.P99 }},
}

func server(c measure.Costs) float64 {
	if c.ServerCPU == nil {
		return 0
	}
	return *c.ServerCPU
}

// write prints the medians.
func write(out io.Writer, lines []line, idle []idleFigures) error {
	head := []string{"store", "consumers"}
	for _, c := range columns {
		head = append(head, c.head)
	}
	fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for len(lines) > 0 {
		first := lines[0]
		same := func(l line) bool { return l.Store == first.Store && l.Consumers == first.Consumers }
		var of []line
		for _, l := range lines {
			if same(l) {
				of = append(of, l)
			}
		}
		cells := []string{first.Store, fmt.Sprint(first.Consumers)}
		for _, c := range columns {
			cells = append(cells, rounded(median(of, c.figure)))
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		lines = slices.DeleteFunc(lines, same)
	}
	for _, f := range idle {
		fmt.Fprintf(out, "\n100 subscriptions, 97 of them idle: nothing arrives, server %s and client %s ms a second; "+
			"100 messages a second to 3, server %s and client %s ms a second, p50 %s ms, p99 %s ms\n",
			rounded(f.Quiet.Server), rounded(f.Quiet.Client), rounded(f.Busy.Server), rounded(f.Busy.Client),
			rounded(f.Latency.P50), rounded(f.Latency.P99))
	}
	return nil
}

// rounded has two digits, or three.
func rounded(n float64) string {
	switch {
	case n >= 1000:
		return fmt.Sprintf("%.0f", n/10) + "0"
	case n >= 10:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}
