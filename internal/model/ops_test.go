package model_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/txwork/txwork/workqueue"
)

// An op is a settle or an extend: the call of the library, and its effect on a row that is held.
type op struct {
	name    string
	call    func(context.Context, *workqueue.Queue, uuid.UUID, []uuid.UUID) ([]uuid.UUID, error)
	apply   func(*table, *row)
	leadsTo []workqueue.Status // states that a row may have if this was already done to it
}

var retried = []workqueue.Status{workqueue.Ready, workqueue.Failed}

func drawOp(t *rapid.T) op {
	d := hours(rapid.IntRange(0, 2).Draw(t, "delay"))
	return rapid.SampledFrom([]op{ack(), abandon(d), retry(), fail(), snooze(d), release(), extend(d + 1)}).Draw(t,
		"op")
}

func (o op) String() string { return o.name }

func ack() op {
	return op{
		name: "ack",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Ack(ctx, token, ids)
		},
		apply: func(t *table, r *row) {
			if t.deleteDone {
				t.remove(r)
			} else {
				r.end(workqueue.Done, t.now)
			}
		},
		leadsTo: []workqueue.Status{workqueue.Done},
	}
}

func abandon(d hours) op {
	return op{
		name: "abandon",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Abandon(ctx, token, ids, time.Duration(d)*time.Hour, "abandoned")
		},
		apply:   func(t *table, r *row) { r.fault("abandoned"); r.retryOrFail(t.now+d, t.now) },
		leadsTo: retried,
	}
}

func retry() op {
	return op{
		name: "retry",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Retry(ctx, token, ids, "retried")
		},
		apply:   func(t *table, r *row) { r.fault("retried"); r.retryOrFail(t.now+r.delay(), t.now) },
		leadsTo: retried,
	}
}

func fail() op {
	return op{
		name: "fail",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Fail(ctx, token, ids, "failed")
		},
		apply:   func(t *table, r *row) { r.fault("failed"); r.end(workqueue.Failed, t.now) },
		leadsTo: []workqueue.Status{workqueue.Failed},
	}
}

func snooze(d hours) op {
	return op{
		name: "snooze",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Snooze(ctx, token, ids, time.Duration(d)*time.Hour)
		},
		apply:   func(t *table, r *row) { r.putBack(t.now+d, t.now) },
		leadsTo: retried,
	}
}

func release() op {
	return op{
		name: "release",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Release(ctx, token, ids)
		},
		apply:   func(t *table, r *row) { r.putBack(r.due, t.now) },
		leadsTo: retried,
	}
}

// putBack gives the attempt back, unless a cancel was requested.
func (r *row) putBack(due, now hours) {
	if r.cancelled {
		r.end(workqueue.Failed, now)
		return
	}
	r.attempts--
	r.again(due)
}

func extend(d hours) op {
	return op{
		name: "extend",
		call: func(ctx context.Context, q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Extend(ctx, token, ids, time.Duration(d)*time.Hour)
		},
		apply:   func(t *table, r *row) { r.lockedTo = t.now + d },
		leadsTo: []workqueue.Status{workqueue.InProgress},
	}
}
