package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
)

func newBenchTimersCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "timers", "How late timers fire", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Timers{}
		flags.Int64Var(&w.Due, "due", 10_000, "how many timers")
		flags.DurationVar(&w.Within, "within", 10*time.Second, "the time within which they are due")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("due", w.Due, 1, 10_000_000),
				lasting("within", w.Within, time.Second),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
			)
		}
	})
}
