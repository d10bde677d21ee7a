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

func newBenchCronCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "cron", "How late jobs of schedules start", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Cron{}
		flags.Int64Var(&w.Schedules, "schedules", 100, "how many schedules")
		flags.DurationVar(&w.Duration, "duration", 10*time.Second, "for how long")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("schedules", w.Schedules, 1, bench.MaxSchedules),
				lasting("duration", w.Duration, 3*time.Second),
				atMost("--schedules times --duration", float64(w.Schedules)*w.Duration.Seconds(), bench.MaxJobs),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
			)
		}
	})
}
