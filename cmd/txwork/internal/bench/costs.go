package bench

import (
	"context"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// Costs are those of a workload, by job.
type Costs struct {
	measure.Costs

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
	c := &Costs{
		Costs:      m.before.Costs(after.Counters, after.client-m.before.client+m.elsewhere.cpu, jobs),
		DeadTuples: after.dead, ClientMemory: memory + m.elsewhere.memory,
		Commits: float64(after.transactions-m.before.transactions) / float64(jobs),
	}
	if claims > 0 {
		hot := float64(after.hot-m.before.hot) / float64(claims)
		c.HotShare = &hot
	}
	return c, nil
}
