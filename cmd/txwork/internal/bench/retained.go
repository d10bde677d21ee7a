package bench

import (
	"context"
	"time"

	"github.com/txwork/txwork/jobs"
)

// Retained compares draining a small table with draining one that keeps many jobs that are done, and many that are
// due far in the future.
type Retained struct {
	Done    int64 `json:"done"`
	Future  int64 `json:"future"`
	Jobs    int64 `json:"jobs"` // that are drained on each side
	Payload int   `json:"payload_bytes"`
}

// Name implements [Workload].
func (Retained) Name() string { return "retained" }

func (c Retained) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newJobStore(ctx, l)
	if err != nil {
		return nil, err
	}
	return contrast{jobs: c.Jobs, payload: c.Payload, add: c.add}.run(ctx, l, s)
}

// farAhead is how far ahead the future jobs are due.
const farAhead = 30 * 24 * time.Hour

// add lets a worker complete the finished jobs, so that they are stored as in a table that grew.
func (c Retained) add(ctx context.Context, l *lab, s *jobStore) error {
	future := *s
	future.inserted = jobs.Insert{Delay: farAhead}
	if err := l.fill(ctx, "filling", &future, c.Future, c.Payload); err != nil {
		return err
	}
	if c.Done == 0 {
		return nil
	}
	if err := l.fill(ctx, "filling", s, c.Done, c.Payload); err != nil {
		return err
	}
	t := newTally(c.Done)
	if _, err := l.exhaust(ctx, "retaining", s, 1, t, func(int64, int) error { t.add(); return nil }); err != nil {
		return err
	}
	return context.Cause(ctx)
}
