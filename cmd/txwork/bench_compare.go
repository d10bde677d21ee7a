package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
)

// newBenchRetainedCommand compares a small table with one that also keeps finished jobs and jobs due in 30 days.
func newBenchRetainedCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "retained", "A table that keeps what is done", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Retained{}
		flags.Int64Var(&w.Done, "done", 100_000, "jobs that are done")
		flags.Int64Var(&w.Future, "future", 100_000, "jobs that are due in 30 days")
		flags.Int64Var(&w.Jobs, "jobs", 20_000, "jobs to drain on each side")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("done", w.Done, 0, bench.MaxJobs),
				between("future", w.Future, 0, bench.MaxJobs),
				between("jobs", w.Jobs, 1, bench.MaxJobs),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
			)
		}
	})
}

func newBenchCrowdCommand(a *app) *cobra.Command {
	const short = "Jobs behind a crowd that cannot be claimed"
	return newBenchWorkload(a, "crowd --kind KIND", short, func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Crowd{}
		kind := flags.String("kind", "", "why: paused, unknown, blocked or rate")
		flags.Int64Var(&w.Rows, "rows", 100_000, "size of the crowd")
		flags.Int64Var(&w.Jobs, "jobs", 20_000, "jobs to drain on each side")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			w.Kind = bench.CrowdKind(*kind)
			return *w, cmp.Or(
				checkCrowdKind(w.Kind),
				between("rows", w.Rows, 1, bench.MaxJobs),
				between("jobs", w.Jobs, 1, bench.MaxJobs),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
			)
		}
	})
}

func checkCrowdKind(kind bench.CrowdKind) error {
	if slices.Contains(bench.CrowdKinds, kind) {
		return nil
	}
	return usagef("--kind is %q, it must be one of %s", kind, strings.Trim(fmt.Sprint(bench.CrowdKinds), "[]"))
}
