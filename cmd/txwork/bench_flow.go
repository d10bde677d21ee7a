package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/bench"
	"github.com/txwork/txwork/workqueue"
)

func newBenchEnqueueCommand(a *app) *cobra.Command {
	long := `Write jobs that nobody does. Every --batch jobs are one transaction: begin, insert, commit. With --batch 1 it is
what an application pays that enqueues one job in each of its transactions. Percentiles are of transactions.`
	return newBenchWorkload(a, "enqueue", "Write jobs", long, func(cmd *cobra.Command) func() (bench.Workload, error) {
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
				between("payload", w.Payload, 0, bench.MaxPayload),
				atMost("--batch times --payload", w.Batch*w.Payload, bench.MaxBatchBytes),
			)
		}
	})
}

func newBenchLatencyCommand(a *app) *cobra.Command {
	long := `Enqueue jobs one at a time on an idle queue and measure from before the insert's transaction to the start of the
handler: the commit to disk is part of it. The queue rests 20 ms between two jobs.`
	return newBenchWorkload(a, "latency", "Insert to handler start on an idle queue",
		long, func(cmd *cobra.Command) func() (bench.Workload, error) {
			flags := cmd.Flags()
			w := &bench.Latency{}
			flags.Int64Var(&w.Count, "count", 300, "how many jobs")
			payloadFlag(cmd, &w.Payload)
			return func() (bench.Workload, error) {
				return *w, cmp.Or(
					between("count", w.Count, 1, 1_000_000),
					between("payload", w.Payload, 0, bench.MaxPayload),
				)
			}
		})
}

func newBenchSteadyCommand(a *app) *cobra.Command {
	long := `Enqueue jobs at a rate for a while and do them. Every job has a time at which it is to be enqueued, and latency is
measured from that time to the start of its handler: whatever holds up a producer counts, too, so a rate that the
machine cannot bear shows as latency that grows. A producer enqueues a job in a transaction of its own, unless it is
late: then it takes along what is overdue.`
	return newBenchWorkload(a, "steady", "A rate of jobs for some time",
		long, func(cmd *cobra.Command) func() (bench.Workload, error) {
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
					between("payload", w.Payload, 8, bench.MaxPayload),
					atMost("--rate times --duration", w.Rate*w.Duration.Seconds(), bench.MaxJobs),
				)
			}
		})
}
