package bench

import (
	"context"
	"time"
)

// Costs are those of a workload, by job.
type Costs struct {
	WALBytes  float64  `json:"wal_bytes_per_job"`               // bytes of the server's write-ahead log
	ServerCPU *float64 `json:"server_cpu_us_per_job,omitempty"` // CPU time of all processes of a private server
	ClientCPU float64  `json:"client_cpu_us_per_job"`           // CPU time of this process and its worker processes
	// ClientMemory is the most that this process, with its producers and workers, held meanwhile; of worker processes,
	// the sum of what each held at most.
	ClientMemory uint64 `json:"client_memory_bytes"`
	// HotShare is heap-only updates, which leave the indexes alone, by claim. All claims should be such updates, and
	// no settle is; renewals of leases and what is noted about failed attempts can lift it a little above 1.
	HotShare   *float64 `json:"hot_share,omitempty"`
	DeadTuples int64    `json:"dead_tuples"`     // dead tuples at the end
	Commits    float64  `json:"commits_per_job"` // transactions of the database
}

// A measurement is in progress between begin and end.
type measurement struct {
	lab    *lab
	table  string
	before counters
	memory *memoryPeak

	elsewhere struct { // used by other processes of the benchmark
		cpu    time.Duration
		memory uint64
	}
}

// begin reads the counters. No pool of the lab may be open.
func (l *lab) begin(ctx context.Context, table string) (*measurement, error) {
	before, err := l.read(ctx, table)
	if err != nil {
		return nil, err
	}
	return &measurement{lab: l, table: table, before: before, memory: watchMemory(ctx)}, nil
}

// end reads the counters again, even if ctx has ended, and divides. Claims is the number of claims, or 0 if it does not
// matter. The pools of the lab must be closed.
func (m *measurement) end(ctx context.Context, jobs, claims int64) (*Costs, error) {
	memory := m.memory.stop()
	ctx, cancel := aftermath(ctx)
	defer cancel()
	after, err := m.lab.read(ctx, m.table)
	if err != nil || jobs == 0 {
		return nil, err
	}
	per := func(total float64) float64 { return total / float64(jobs) }
	c := &Costs{
		WALBytes:   per(after.wal - m.before.wal),
		ClientCPU:  per(microseconds(after.clientCPU - m.before.clientCPU + m.elsewhere.cpu)),
		DeadTuples: after.dead, ClientMemory: memory + m.elsewhere.memory,
		Commits: per(float64(after.commits - m.before.commits)),
	}
	if after.hasServer && m.before.hasServer {
		cpu := per(microseconds(after.serverCPU - m.before.serverCPU))
		c.ServerCPU = &cpu
	}
	if claims > 0 {
		hot := float64(after.hot-m.before.hot) / float64(claims)
		c.HotShare = &hot
	}
	return c, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
