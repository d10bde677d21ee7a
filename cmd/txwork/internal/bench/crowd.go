package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A CrowdKind says why a crowd of jobs cannot be claimed.
type CrowdKind string

const (
	CrowdPaused  CrowdKind = "paused"  // in a queue that is paused, which the worker serves, too
	CrowdUnknown CrowdKind = "unknown" // of a kind that the worker does not know and leaves to others
	CrowdBlocked CrowdKind = "blocked" // behind one job of their key, which is not due yet
	CrowdRate    CrowdKind = "rate"    // in a queue whose rate is used up, which the worker serves, too
)

// CrowdKinds lists all kinds.
var CrowdKinds = []CrowdKind{CrowdPaused, CrowdUnknown, CrowdBlocked, CrowdRate}

// Crowd compares draining jobs with draining them behind a crowd of older ones that cannot be claimed.
type Crowd struct {
	Kind    CrowdKind `json:"kind"`
	Rows    int64     `json:"rows"`
	Jobs    int64     `json:"jobs"`          // that are drained on each side
	Payload int       `json:"payload_bytes"` // bytes
}

// Name implements [Workload].
func (Crowd) Name() string { return "crowd" }

func (c Crowd) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newJobStore(ctx, l)
	if err != nil {
		return nil, err
	}
	s.options.Unknown = jobs.LeaveUnknown
	s.options.Queues = []jobs.QueueOptions{{Name: jobs.DefaultQueue}, {Name: crowdQueue}}
	return contrast{jobs: c.Jobs, payload: c.Payload, add: c.add}.run(ctx, l, s)
}

const crowdQueue = "crowd"

// A stranger is a job of a kind that no worker here has registered.
type stranger struct{ parcel }

// Kind implements [jobs.Args].
func (stranger) Kind() string { return "bench.stranger" }

// add sets the rule first, so that none of the crowd can be claimed. The few jobs that a rate lets through do not count
// either, because no worker here knows their kind.
func (c Crowd) add(ctx context.Context, l *lab, s *jobStore) error {
	if err := c.rule(ctx, l, s); err != nil {
		return err
	}
	job := c.job()
	err := l.write(ctx, "gathering", c.Rows, c.Payload, func(ctx context.Context, tx pgx.Tx, parcels []parcel) error {
		inserts := make([]jobs.Insert, len(parcels))
		for i, p := range parcels {
			inserts[i] = job
			inserts[i].Args = stranger{p}
		}
		_, err := s.client.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
		return err
	})
	if err != nil {
		return err
	}
	if c.Kind == CrowdUnknown {
		if err := c.meet(ctx, l, s); err != nil {
			return err
		}
	}
	return l.settle(ctx, s.table())
}

// job is a job of the crowd, whose args are still missing.
func (c Crowd) job() jobs.Insert {
	switch c.Kind {
	case CrowdPaused, CrowdRate:
		return jobs.Insert{Queue: crowdQueue}
	case CrowdBlocked:
		return jobs.Insert{ByKey: keyed.Ordered{Key: "crowd"}}
	}
	return jobs.Insert{}
}

// slowest is a rate that lets only one job start during a run.
const slowest = 0.001

func (c Crowd) rule(ctx context.Context, l *lab, s *jobStore) error {
	pool, err := l.pool(ctx, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		switch tx := workqueue.Pgx(tx); c.Kind {
		case CrowdPaused:
			err = s.client.Pause(ctx, tx, crowdQueue)
		case CrowdRate:
			err = s.client.SetLimits(ctx, tx, crowdQueue, jobs.Limits{Rate: slowest, Burst: 1})
		case CrowdBlocked:
			job := c.job()
			job.Args, job.Delay = stranger{}, farAhead
			_, err = s.client.Enqueue(ctx, tx, job)
		}
		return err
	})
}

const (
	meetLimit = 10 * time.Minute
)

// meet lets a worker examine each job of the crowd once, as happens soon after such jobs are written.
func (c Crowd) meet(ctx context.Context, l *lab, s *jobStore) error {
	pool, err := l.pool(ctx, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	w, err := s.worker(pool, func(int64, int) error { return nil })
	if err != nil {
		return err
	}
	defer l.watch("meeting", 1, func() int64 { return 0 })()
	crew := start(ctx, w)
	err = l.met(ctx, s)
	if haltErr := crew.halt(); err == nil {
		err = haltErr
	}
	return err
}

func (l *lab) met(ctx context.Context, s *jobStore) error {
	query := "SELECT count(*) FROM " + l.in(s.table()) +
		" WHERE completed_at IS NULL AND kind = 'bench.stranger' AND (status = 1 OR due_at <= now())"
	for deadline := time.Now().Add(meetLimit); time.Now().Before(deadline); {
		var due int64
		if err := l.meter.query(ctx, []any{&due}, query); err != nil || due == 0 {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("a worker has not met the crowd within %v", meetLimit)
}
