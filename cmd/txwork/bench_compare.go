package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/bench"
)

// aboutSides says what both comparisons measure.
const aboutSides = `The same number of jobs is drained without and then with it, in one table and one run. Each side tells jobs a
second; buffers a claim, which is the pages that the server looks at to claim 100 jobs from the start of the queue;
and buffers a job, which is all that the worker looks at in the table and its indexes meanwhile. Buffers hardly
depend on the machine: where jobs a second differ and buffers do not, look for noise.`

func newBenchRetainedCommand(a *app) *cobra.Command {
	long := `Compare a small table with one that keeps jobs which are done and holds jobs which are due in 30 days.
` + aboutSides
	return newBenchWorkload(a, "retained", "A table that keeps what is done",
		long, func(cmd *cobra.Command) func() (bench.Workload, error) {
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
					between("payload", w.Payload, 0, bench.MaxPayload),
				)
			}
		})
}

func newBenchCrowdCommand(a *app) *cobra.Command {
	long := `Compare an empty table with one that holds a crowd of older jobs which cannot be claimed:

  paused   in a queue that is paused and that the worker serves, too
  unknown  of a kind that the worker does not know and leaves to others; once it has looked at each of them
  blocked  behind a job of their key that is not due yet
  rate     in a queue whose rate is used up and that the worker serves, too

` + aboutSides
	return newBenchWorkload(a, "crowd --kind KIND", "Jobs behind a crowd that cannot be claimed",
		long, func(cmd *cobra.Command) func() (bench.Workload, error) {
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
					between("payload", w.Payload, 0, bench.MaxPayload),
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
