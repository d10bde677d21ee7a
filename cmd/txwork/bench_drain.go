package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
	"github.com/txwork/txwork/workqueue"
)

func newBenchDrainCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "drain", "Do jobs that are there", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Drain{}
		fail := share(0)
		flags.Int64Var(&w.Jobs, "jobs", 100_000, "how many jobs")
		flags.BoolVar(&w.HoldSnapshot, "hold-snapshot", false,
			"keep a transaction open meanwhile, as a long report does, so that vacuum can remove nothing")
		flags.IntVar(&w.Processes, "processes", 0,
			"worker processes, each with --workers; 0: the workers are in this process")
		flags.IntVar(&w.Workers, "workers", 1, "workers, of each process")
		flags.IntVar(&w.Concurrency, "concurrency", workqueue.DefaultConcurrency, "handlers of each worker")
		flags.Var(&fail, "fail", "share of jobs whose first attempt fails; they are done 100 ms later")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			w.Fail = float64(fail)
			return *w, cmp.Or(
				between("jobs", w.Jobs, 1, bench.MaxJobs),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
				between("processes", w.Processes, 0, bench.MaxWorkers),
				between("workers", w.Workers, 1, bench.MaxWorkers),
				atMost("--processes times --workers", w.Processes*w.Workers, bench.MaxWorkers),
				between("concurrency", w.Concurrency, 1, bench.MaxConcurrency),
			)
		}
	})
}

// A share is given in per cent, or as a number up to 1.
type share float64

// Set implements the Value of a flag.
func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("want a share such as 10%% or 0.1, at most 100%%")
	}
	*s = share(v)
	return nil
}

// String implements the Value of a flag.
func (s *share) String() string { return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%" }

// Type implements the Value of a flag.
func (s *share) Type() string { return "share" }
