package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
	"github.com/txwork/txwork/workqueue"
)

func newBenchEnqueueCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "enqueue", "Write jobs", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Enqueue{}
		flags.Int64Var(&w.Jobs, "jobs", 100_000, "how many jobs")
		flags.IntVar(&w.Batch, "batch", 1000, "jobs of a transaction")
		flags.IntVar(&w.Connections, "connections", 2, "connections that write")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("jobs", w.Jobs, 1, bench.MaxJobs),
				between("batch", w.Batch, 1, workqueue.MaxBatch),
				between("connections", w.Connections, 1, bench.MaxConnections),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
				atMost("--batch times --payload-bytes", w.Batch*w.Payload, bench.MaxBatchBytes),
			)
		}
	})
}

func newBenchLatencyCommand(a *app) *cobra.Command {
	const short = "Insert to handler start on an idle queue"
	return newBenchWorkload(a, "latency", short, func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Latency{}
		flags.Int64Var(&w.Count, "count", 300, "how many jobs")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("count", w.Count, 1, 1_000_000),
				between("payload-bytes", w.Payload, 0, bench.MaxPayload),
			)
		}
	})
}

func newBenchSteadyCommand(a *app) *cobra.Command {
	return newBenchWorkload(a, "steady", "A rate of jobs for some time", func(cmd *cobra.Command) readWorkload {
		flags := cmd.Flags()
		w := &bench.Steady{}
		flags.Float64Var(&w.Rate, "rate", 500, "jobs a second")
		flags.DurationVar(&w.Duration, "duration", 10*time.Second, "for how long")
		flags.IntVar(&w.Workers, "workers", 1, "workers, all in this process")
		flags.IntVar(&w.Connections, "connections", 8, "connections that enqueue")
		payloadFlag(cmd, &w.Payload)
		return func() (bench.Workload, error) {
			return *w, cmp.Or(
				between("rate", w.Rate, 0.1, bench.MaxRate),
				lasting("duration", w.Duration, time.Second),
				between("workers", w.Workers, 1, bench.MaxWorkers),
				between("connections", w.Connections, 1, bench.MaxConnections),
				between("payload-bytes", w.Payload, 8, bench.MaxPayload),
				atMost("--rate times --duration", w.Rate*w.Duration.Seconds(), bench.MaxJobs),
			)
		}
	})
}
