package main

import "strings"

// A cell is a workload and the metrics of its result that are compared.
type cell struct {
	args    []string // of txwork bench
	metrics []metric
}

func (c cell) name() string { return strings.Join(c.args, " ") }

// A metric is a number in the JSON object of a result.
type metric struct {
	path   string // JSON keys, separated by dots
	title  string
	higher bool // higher is better
}

var (
	rate      = metric{"jobs_per_second", "jobs/s", true}
	p50       = metric{"p50_ms", "p50, ms", false}
	p99       = metric{"p99_ms", "p99, ms", false}
	walBytes  = metric{"wal_bytes_per_job", "log, bytes/job", false}
	serverCPU = metric{"server_cpu_us_per_job", "server CPU, µs/job", false}
	clientCPU = metric{"client_cpu_us_per_job", "client CPU, µs/job", false}
	commits   = metric{"commits_per_job", "commits/job", false}

	behindCrowd  = metric{"comparison.with.jobs_per_second", "jobs/s behind it", true}
	crowdBuffers = metric{"comparison.with.buffers_per_job", "buffers/job behind it", false}
	crowdClaim   = metric{"comparison.with.buffers_per_claim", "buffers/claim behind it", false}
)

// cellsOf returns the workloads that a slower core would slow down first.
func cellsOf(short bool) []cell {
	sizes := map[bool][]string{
		false: {"drain --jobs 50000", "enqueue --jobs 50000", "latency --count 300",
			"crowd --kind blocked --rows 100000 --jobs 20000"},
		true: {"drain --jobs 20000", "enqueue --jobs 20000", "latency --count 50",
			"crowd --kind blocked --rows 10000 --jobs 5000"},
	}[short]
	metrics := [][]metric{
		{rate, walBytes, serverCPU, clientCPU, commits},
		{rate, p50, p99, walBytes, serverCPU, clientCPU},
		{p50, p99, commits},
		{behindCrowd, crowdBuffers, crowdClaim},
	}
	cells := make([]cell, len(sizes))
	for i, args := range sizes {
		cells[i] = cell{strings.Fields(args), metrics[i]}
	}
	return cells
}
