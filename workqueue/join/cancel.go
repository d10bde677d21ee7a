package join

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// CancelOptions configure a [Joins.Cancel].
type CancelOptions struct {
	// Reason is stored with the join and with the rows that are ended because of it.
	Reason string
	// CancelMembers also cancels the steps, as [workqueue.Queue.Cancel] does: steps that wait or are Ready end at once,
	// and the contexts of handlers in progress are cancelled. Otherwise the steps run on and are counted as late.
	CancelMembers bool
}

// Cancel ends a pending join as Cancelled. Its on-complete row is cancelled, and its on-fail row ends as not needed.
// Cancel reports whether the join was pending; cancelling a join that has ended changes nothing. The error is
// [workqueue.ErrNotFound] if the join does not exist.
func (j *Joins) Cancel(ctx context.Context, tx workqueue.Tx, id uuid.UUID, o CancelOptions) (bool, error) {
	members, err := j.lockForCancel(ctx, tx, id, o)
	if errors.Is(err, ErrEnded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	reason := any(nil)
	if o.Reason != "" {
		reason = strings.ReplaceAll(strings.ToValidUTF8(o.Reason, "\uFFFD"), "\x00", "")
	}
	if _, err := j.table.In(tx).Exec(ctx, j.statements["cancel"], id, reason); err != nil {
		return false, err
	}
	return true, j.cancelMembers(ctx, tx, id, members, o)
}

// lockForCancel locks members before their join, as Add does, and returns the live members.
func (j *Joins) lockForCancel(ctx context.Context, tx workqueue.Tx, id uuid.UUID, o CancelOptions) (members []uuid.UUID,
	err error) {
	if o.CancelMembers {
		if err := j.table.In(tx).Query(ctx, collect(&members), j.statements["lock_members"], id); err != nil {
			return nil, err
		}
	}
	_, err = j.lockPending(ctx, tx, id)
	return members, err
}

func (j *Joins) cancelMembers(ctx context.Context, tx workqueue.Tx, id uuid.UUID, members []uuid.UUID,
	o CancelOptions) error {
	reason := fmt.Sprintf("join %s was cancelled", id)
	if o.Reason != "" {
		reason += ": " + o.Reason
	}
	for len(members) > 0 {
		n := min(len(members), workqueue.MaxBatch)
		if _, err := j.table.In(tx).Cancel(ctx, members[:n], reason); err != nil {
			return err
		}
		members = members[n:]
	}
	return nil
}

// Purge deletes up to limit joins that ended longer ago than age, oldest first, with their memberships, and returns how
// many it deleted. It does not touch the rows of the table. The sweep does the same after the table's Retention, so
// call Purge only to delete joins sooner.
func (j *Joins) Purge(ctx context.Context, tx workqueue.Tx, age time.Duration, limit int) (int, error) {
	if age < 0 {
		return 0, validate.Errorf("age", "is %v, it cannot be negative", age)
	}
	if limit < 1 || limit > workqueue.MaxBatch {
		return 0, validate.Errorf("limit", "is %d, it must be between 1 and %d", limit, workqueue.MaxBatch)
	}
	var n int
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&n) }, j.statements["purge"],
		interval(age), limit)
	return n, err
}
