package workqueue

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// Ack settles rows as Done.
func (q *Queue) Ack(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Ack, owner, ids, &Outcome{kind: outcomeAck})
}

// Abandon settles rows as a failed attempt: Ready again after the delay, or Failed where the attempts
// are used up or a cancel was asked for. The cause is stored as the row's last error.
func (q *Queue) Abandon(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Abandon, owner, ids, &Outcome{kind: outcomeRetry, delay: delay,
		cause: message(cause)})
}

// Retry is [Queue.Abandon] with the delay of the table's own backoff.
func (q *Queue) Retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Abandon, owner, ids, &Outcome{kind: outcomeRetry, delay: unnamedDelay,
		cause: message(cause)})
}

// Fail settles rows as Failed, whatever attempts are left.
func (q *Queue) Fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Fail, owner, ids, &Outcome{kind: outcomeFail, cause: message(cause)})
}

// Snooze puts rows back for the delay and gives their attempt back.
func (q *Queue) Snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID,
	error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, &Outcome{kind: outcomeSnooze, delay: delay})
}

// Leave puts rows back for the delay that have not started, for other workers, see [LeaveFor]. The cause is stored as
// their last error.
func (q *Queue) Leave(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, &Outcome{kind: outcomeLeave, delay: delay,
		cause: message(cause)})
}

// Unavailable puts rows back where they were, and their topic rests, see the function [Unavailable].
func (q *Queue) Unavailable(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID,
	error) {
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, &Outcome{kind: outcomeUnavailable, delay: unnamedDelay,
		cause: message(cause)})
}

// Release puts rows back where they were that have not started, and gives their attempt back. Limits and rates do not
// count them as started.
func (q *Queue) Release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, released)
}

func (q *Queue) settleOp(ctx context.Context, op telemetry.Operation, owner uuid.UUID, ids []uuid.UUID,
	o *Outcome) ([]uuid.UUID, error) {
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	ctx, call := q.table.telemetry.Start(ctx, op, len(ids))
	done, err := q.settle(ctx, settleAll(owner, ids, o), onlyTry)
	call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
	return done.ids, err
}

// Extend moves the end of the rows' lease to lease from now. Rows that are locked this moment, because
// their settle is being committed, are neither changed nor reported as lost.
func (q *Queue) Extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID,
	error) {
	if err := cmp.Or(checkLease(lease), checkBatch(ids)); err != nil {
		return nil, err
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Extend, len(ids))
	extended, err := q.extend(ctx, claimRefs(owner, ids), lease, nil)
	call.End(telemetry.Event{IDs: extended.ids, Err: err})
	return extended.ids, err
}

// settleAll makes the settlements of one claim's rows, all with the same outcome.
func settleAll(owner uuid.UUID, ids []uuid.UUID, o *Outcome) []*settlement {
	all, batch := make([]settlement, len(ids)), make([]*settlement, len(ids))
	message := o.stored(context.Background(), nil)
	for i, id := range ids {
		all[i] = settlement{claimRef: claimRef{id, owner}, outcome: o, message: message}
		batch[i] = &all[i]
	}
	return batch
}
