package report

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/internal/measure"
)

// WriteLoads writes a table with the medians of all rounds.
func WriteLoads(w io.Writer, loads []lab.Load) error {
	loads = slices.Clone(loads)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "PEER\tJOBS/S\tQUEUES\tCONNECTIONS\tTRANSACTIONS/S\tSERVER µS/JOB\tCLIENT µS/JOB\tBOTH\tSERVER "+
		"CPU\tCLIENT CPU")
	for len(loads) > 0 {
		one := loads[0]
		same := func(o lab.Load) bool {
			return o.Entrant == one.Entrant && o.Rate == one.Rate && o.Queues == one.Queues
		}
		var rounds []lab.Load
		for _, o := range loads {
			if same(o) {
				rounds = append(rounds, o)
			}
		}
		loads = slices.DeleteFunc(loads, same)
		of := func(value func(lab.Load) float64) float64 { return measure.SpreadBy(rounds, value).Median }
		perJob := "-\t-\t-"
		if one.Rate > 0 {
			server := of(func(o lab.Load) float64 { s, _ := o.PerJob(); return s })
			client := of(func(o lab.Load) float64 { _, c := o.PerJob(); return c })
			perJob = fmt.Sprintf("%.0f\t%.0f\t%.0f", server, client, server+client)
		}
		fmt.Fprintf(out, "%s\t%.1f\t%d\t%.0f\t%.1f\t%s\t%.2f %%\t%.2f %%\n", one.Entrant,
			of(func(o lab.Load) float64 { return o.PerSecond }), one.Queues,
			of(func(o lab.Load) float64 { return float64(o.Connections) }),
			of(func(o lab.Load) float64 { return o.Transactions }), perJob,
			of(func(o lab.Load) float64 { return o.ServerCPU })/1e4,
			of(func(o lab.Load) float64 { return o.ClientCPU })/1e4)
	}
	return out.Flush()
}
