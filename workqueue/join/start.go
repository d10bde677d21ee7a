package join

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Start starts joins over existing rows in the application's transaction, and returns their ids in order. It checks
// everything before it writes anything; the error of an invalid join is a [workqueue.InvalidError]. One call takes at
// most [workqueue.MaxBatch] joins with as many members in all; [Joins.Add] adds more.
//
// Insert the members and continuations in the same transaction, the members with [Column] true: then no other
// transaction sees them, and none waits. Members of earlier transactions work as well. The next fold counts those that
// have ended, but settles of the others wait until this transaction ends. In a table that deletes rows on ack, a member
// that was acknowledged does not exist.
func (j *Joins) Start(ctx context.Context, tx workqueue.Tx, joins ...Join) ([]uuid.UUID, error) {
	if len(joins) == 0 {
		return nil, nil
	}
	s, err := newStart(joins)
	if err != nil {
		return nil, err
	}
	if err := s.load(ctx, tx, j); err != nil {
		return nil, err
	}
	if err := s.checkRows(); err != nil {
		return nil, err
	}
	if err := s.checkTaken(ctx, tx, j); err != nil {
		return nil, err
	}
	if err := s.checkCycles(ctx, tx, j); err != nil {
		return nil, err
	}
	return s.ids(), s.write(ctx, tx, j)
}

// A start is one call of Start.
type start struct {
	joins []Join
	rows  map[uuid.UUID]row
}

// A row is the state of a member or a continuation, as far as a join needs it.
type row struct {
	status          workqueue.Status
	waiting, joined bool
}

func newStart(joins []Join) (*start, error) {
	if len(joins) > workqueue.MaxBatch {
		return nil, validate.Errorf("joins", "has %d of them, at most %d fit one call", len(joins), workqueue.MaxBatch)
	}
	s := &start{joins: make([]Join, len(joins))}
	for i, join := range joins {
		if err := join.Validate(); err != nil {
			return nil, s.about(i, len(joins), err)
		}
		if join.ID == uuid.Nil {
			id, err := uuid.NewV7()
			if err != nil {
				return nil, err
			}
			join.ID = id
		}
		s.joins[i] = join
	}
	return s, s.checkCall()
}

// about adds to an error which of several joins it is about.
func (s *start) about(i, n int, err error) error {
	if err == nil || n == 1 {
		return err
	}
	return fmt.Errorf("join %d of %d: %w", i+1, n, err)
}

// load locks and reads the rows that the joins name.
func (s *start) load(ctx context.Context, tx workqueue.Tx, j *Joins) (err error) {
	ids := s.continuations()
	for _, join := range s.joins {
		ids = append(ids, join.Members...)
	}
	s.rows, err = j.lockRows(ctx, tx, ids)
	return err
}

// lockRows locks rows against their settles, see sql/lock.sql.
func (j *Joins) lockRows(ctx context.Context, tx workqueue.Tx, ids []uuid.UUID) (map[uuid.UUID]row, error) {
	rows := make(map[uuid.UUID]row, len(ids))
	err := j.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		var r row
		err := scan(&id, &r.status, &r.waiting, &r.joined)
		rows[id] = r
		return err
	}, j.statements["lock"], ids)
	return rows, err
}

func (s *start) ids() []uuid.UUID {
	ids := make([]uuid.UUID, len(s.joins))
	for i, join := range s.joins {
		ids[i] = join.ID
	}
	return ids
}

func (s *start) continuations() (ids []uuid.UUID) {
	for _, join := range s.joins {
		ids = append(ids, join.continuations()...)
	}
	return ids
}

// continuations returns the rows that continue the join, without duplicates.
func (join Join) continuations() (ids []uuid.UUID) {
	if join.OnComplete != uuid.Nil {
		ids = append(ids, join.OnComplete)
	}
	if join.OnFail != uuid.Nil && join.OnFail != join.OnComplete {
		ids = append(ids, join.OnFail)
	}
	return ids
}

func (s *start) write(ctx context.Context, tx workqueue.Tx, j *Joins) error {
	encoded, err := json.Marshal(s.records(j.table.Spec().Retention))
	if err != nil {
		return err
	}
	if _, err := j.table.In(tx).Exec(ctx, j.statements["insert"], string(encoded)); err != nil {
		return err
	}
	var members, joins []uuid.UUID
	for _, join := range s.joins {
		members = append(members, join.Members...)
		for range join.Members {
			joins = append(joins, join.ID)
		}
	}
	return j.enroll(ctx, tx, s.rows, members, joins)
}

// enroll writes memberships of rows that are locked.
func (j *Joins) enroll(ctx context.Context, tx workqueue.Tx, rows map[uuid.UUID]row, members, joins []uuid.UUID) error {
	var unmarked []uuid.UUID
	for _, id := range members {
		if !rows[id].joined {
			unmarked = append(unmarked, id)
		}
	}
	if len(unmarked) > 0 {
		if _, err := j.table.In(tx).Exec(ctx, j.statements["mark"], unmarked); err != nil {
			return err
		}
	}
	if len(members) == 0 {
		return nil
	}
	_, err := j.table.In(tx).Exec(ctx, j.statements["insert_members"], members, joins)
	return err
}

// A record is a join as sql/insert.sql reads it.
type record struct {
	ID         uuid.UUID `json:"id"`
	Policy     Policy    `json:"policy"`
	Expected   int       `json:"expected"`
	OnComplete uuid.UUID `json:"on_complete,omitzero"`
	OnFail     uuid.UUID `json:"on_fail,omitzero"`
	Deadline   time.Time `json:"deadline,omitzero"`
	Label      string    `json:"label,omitzero"`
	Retention  string    `json:"retention"`
}

func (s *start) records(retention time.Duration) (records []record) {
	for _, join := range s.joins {
		records = append(records, record{
			ID: join.ID, Policy: join.Policy, Expected: len(join.Members),
			OnComplete: join.OnComplete, OnFail: join.OnFail, Deadline: join.Deadline, Label: join.Label,
			Retention: interval(retention),
		})
	}
	return records
}

func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }
