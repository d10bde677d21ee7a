package join

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Add adds steps to a pending join. They are existing rows, as for [Joins.Start]. Rows that are members already are
// left alone, so an Add may be repeated. A step that fans out adds its steps in its own [workqueue.Claim.Tx], which
// settles it in the same transaction, so the join cannot end in between.
//
// The join's row is locked until the transaction ends. Until then the join cannot end, and other transactions cannot
// add steps to it. Settles do not wait for that.
//
// The error is [ErrEnded] if the join has ended, even a moment ago, and [workqueue.ErrNotFound] if it does not exist.
func (j *Joins) Add(ctx context.Context, tx workqueue.Tx, id uuid.UUID, members ...uuid.UUID) error {
	if err := checkMembers(members); err != nil {
		return err
	}
	rows, err := j.lockRows(ctx, tx, members) // before the join, as Cancel does
	if err != nil {
		return err
	}
	continuations, err := j.lockPending(ctx, tx, id)
	if err != nil {
		return err
	}
	g := graph{edges: map[uuid.UUID][]uuid.UUID{}}
	g.join(rows, members, continuations)
	if err := cmp.Or(checkKnown(rows, members), checkNoneOf(members, continuations)); err != nil {
		return err
	}
	if err := g.check(ctx, tx, j); err != nil {
		return err
	}
	return j.add(ctx, tx, id, rows, members)
}

// lockPending locks a join that has to be pending and returns its continuations.
func (j *Joins) lockPending(ctx context.Context, tx workqueue.Tx, id uuid.UUID) ([]uuid.UUID, error) {
	var found bool
	var status Status
	var join Join
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		found = true
		return scan(&status, &join.OnComplete, &join.OnFail)
	}, j.statements["lock_join"], id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("txwork: join %s %w", id, workqueue.ErrNotFound)
	case status != Pending:
		return nil, fmt.Errorf("txwork: %w: %s is %s", ErrEnded, id, status)
	}
	return join.continuations(), nil
}

func (j *Joins) add(ctx context.Context, tx workqueue.Tx, id uuid.UUID, rows map[uuid.UUID]row,
	members []uuid.UUID) error {
	fresh, err := j.newMembers(ctx, tx, id, members)
	if err != nil || len(fresh) == 0 {
		return err
	}
	joins := make([]uuid.UUID, len(fresh))
	for i := range joins {
		joins[i] = id
	}
	if err := j.enroll(ctx, tx, rows, fresh, joins); err != nil {
		return err
	}
	_, err = j.table.In(tx).Exec(ctx, j.statements["add"], id, len(fresh))
	return err
}

// newMembers are the rows that are not members of the join yet.
func (j *Joins) newMembers(ctx context.Context, tx workqueue.Tx, id uuid.UUID, rows []uuid.UUID) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := j.table.In(tx).Query(ctx, collect(&ids), j.statements["new_members"], id, rows)
	return ids, err
}

func collect(ids *[]uuid.UUID) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var id uuid.UUID
		if err := scan(&id); err != nil {
			return err
		}
		*ids = append(*ids, id)
		return nil
	}
}
