package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// WriteComparison writes the medians of the cells of one workload, and the ratio of the first peer's median to each of
// them, for rates or times. With several processes, it adds which share of its rate with one process each peer keeps.
func WriteComparison(w io.Writer, cells []results.Cell) error {
	type row struct {
		entrant   results.Entrant
		processes int
	}
	var rows []row
	values := map[row][]results.Cell{}
	for _, c := range cells {
		r := row{c.Entrant, c.Processes}
		if values[r] == nil {
			rows = append(rows, r)
		}
		values[r] = append(values[r], c)
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "PEER\tPROCESSES\tJOBS/S\tFROM\tTO\tFIRST PEER'S ÷ THIS\tOF ONE PROCESS\tp50 ms\tp99 ms")
	rate := func(c results.Cell) float64 { return c.PerSecond }
	p50 := func(c results.Cell) float64 { return c.P50 }
	p99 := func(c results.Cell) float64 { return c.P99 }
	for _, r := range rows {
		own, leader, alone := values[r], values[row{rows[0].entrant, r.processes}],
			values[row{r.entrant, rows[0].processes}]
		rates := measure.SpreadBy(own, rate)
		fmt.Fprintf(out, "%s\t%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%.2f\t%.2f\n", r.entrant, orDash(r.processes),
			rates.Median, rates.Min, rates.Max, ratioBy(leader, own, rate, p50), ratioBy(own, alone, rate, p50),
			measure.SpreadBy(own, p50).Median, measure.SpreadBy(own, p99).Median)
	}
	return out.Flush()
}

// ratioBy returns the ratio of medians, of the first of the values that was measured.
func ratioBy(a, b []results.Cell, values ...func(results.Cell) float64) string {
	for _, value := range values {
		if over, under := measure.SpreadBy(a, value).Median, measure.SpreadBy(b, value).Median; over > 0 && under > 0 {
			return fmt.Sprintf("%.2f", over/under)
		}
	}
	return "-"
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
