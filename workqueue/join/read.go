package join

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Get reads a join. The error is [workqueue.ErrNotFound] if it was never started or has been purged.
func (j *Joins) Get(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (State, error) {
	return j.one(ctx, tx, "join", "WHERE j.id = $1::pg_catalog.uuid", id)
}

// ContinuedBy reads the join that a row continues. The handler of a continuation uses it to get the outcome and the
// steps. The error is [workqueue.ErrNotFound] if the row continues no join.
func (j *Joins) ContinuedBy(ctx context.Context, tx workqueue.Tx, row uuid.UUID) (State, error) {
	return j.one(ctx, tx, "join continued by", "WHERE j.on_complete = $1::pg_catalog.uuid OR j.on_fail = $1::pg_catalog.uuid", row)
}

// one reads a join. The error describes the join as what, followed by the id.
func (j *Joins) one(ctx context.Context, tx workqueue.Tx, what, where string, id uuid.UUID) (State, error) {
	states, err := j.states(ctx, tx, where, id)
	if err == nil && len(states) == 0 {
		err = fmt.Errorf("txwork: %s %s %w", what, id, workqueue.ErrNotFound)
	}
	if err != nil {
		return State{}, err
	}
	return states[0], nil
}

// ListOptions select joins. The zero value selects the first page of all joins.
type ListOptions struct {
	Label  string    // only those with this label
	Status *Status   // only those in this state
	Before uuid.UUID // only those with smaller ids: the last id of the previous page
	Limit  int       // default 100, at most [workqueue.MaxBatch]
}

// List reads joins in descending order of their ids: the newest first, if Start generated the ids.
func (j *Joins) List(ctx context.Context, tx workqueue.Tx, o ListOptions) ([]State, error) {
	o.Limit = cmp.Or(o.Limit, 100)
	if o.Limit < 1 || o.Limit > workqueue.MaxBatch {
		return nil, validate.Errorf("limit", "is %d, it must be between 1 and %d", o.Limit, workqueue.MaxBatch)
	}
	if o.Before == uuid.Nil {
		o.Before = uuid.Max
	}
	where, args := "WHERE j.id < $1::pg_catalog.uuid", []any{o.Before, o.Limit}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where += fmt.Sprintf(condition, len(args))
	}
	if o.Label != "" {
		if err := validate.Text("label", o.Label); err != nil {
			return nil, err
		}
		add(" AND j.label = $%d::pg_catalog.text", o.Label)
	}
	if o.Status != nil {
		add(" AND j.status = $%d::smallint", int64(*o.Status))
	}
	return j.states(ctx, tx, where+" ORDER BY j.id DESC LIMIT $2::integer", args...)
}

func (j *Joins) states(ctx context.Context, tx workqueue.Tx, where string, args ...any) ([]State, error) {
	var states []State
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var s State
		var deadline, completed *time.Time
		err := scan(&s.ID, &s.Label, &s.Status, &s.Policy, &s.Expected, &s.Succeeded, &s.Failed, &s.Late,
			&s.OnComplete, &s.OnFail, &deadline, &s.LastError, &s.CreatedAt, &completed)
		if deadline != nil {
			s.Deadline = *deadline
		}
		if completed != nil {
			s.CompletedAt = *completed
		}
		states = append(states, s)
		return err
	}, j.statements["states"]+"\n"+where, args...)
	return states, err
}

// Members reads up to limit steps of a join in the order of their ids, after the given id. The zero UUID reads from the
// start.
func (j *Joins) Members(ctx context.Context, tx workqueue.Tx, id, after uuid.UUID, limit int) ([]Member, error) {
	if limit < 1 || limit > workqueue.MaxBatch {
		return nil, validate.Errorf("limit", "is %d, it must be between 1 and %d", limit, workqueue.MaxBatch)
	}
	var members []Member
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var m Member
		err := scan(&m.ID, &m.Outcome, &m.Late)
		members = append(members, m)
		return err
	}, j.statements["members"], id, after, limit)
	return members, err
}
