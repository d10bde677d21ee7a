package outbox

import (
	"context"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A Join is messages that are delivered side by side, and a message that is delivered when all have been.
type Join struct {
	// Label is for people: at most [join.MaxLabel] bytes.
	Label string

	// Steps are the messages to wait for. None: the join completes with the next fold.
	Steps []Message

	// OnComplete and OnFail are written with the steps and delivered if the join ends so. Both are optional.
	// When the join fails, OnComplete ends as cancelled; when it completes, OnFail ends as done without having
	// been delivered.
	OnComplete, OnFail *Message

	// Policy says when the join ends and how. Default: [join.WaitAll].
	Policy join.Policy

	// Deadline fails the join if it is still pending then, by the database's clock. Zero: none.
	Deadline time.Time
}

// Started are the ids of a join and of its messages.
type Started struct {
	ID                 uuid.UUID
	Steps              []uuid.UUID
	OnComplete, OnFail uuid.UUID // zero: none
}

// StartJoin writes a join with its messages in the application's transaction. A step counts when it is settled:
// delivered as succeeded, failed for good or cancelled as failed. The join ends some milliseconds after the last.
//
// Steps and continuations have no dedup key: a message that is there already belongs to whoever wrote it.
//
// Everything is validated before anything is written: after an error that is a [workqueue.ErrInvalid] the transaction
// is as it was. At most [workqueue.MaxBatch] steps fit one call; [join.Joins.Add] adds more. After any other error roll
// the transaction back.
func (o *Outbox) StartJoin(ctx context.Context, tx workqueue.Tx, j Join) (Started, error) {
	if err := j.check(); err != nil {
		return Started{}, err
	}
	n := len(j.Steps)
	all, err := o.prepare(ctx, j.messages(), func(i int) role {
		if i < n {
			return step
		}
		return continuation
	})
	if err != nil {
		return Started{}, err
	}
	written, err := o.write(ctx, tx, all)
	if err != nil {
		return Started{}, err
	}
	s := Started{Steps: workqueue.IDs(written[:n])}
	for _, continuation := range []struct {
		m  *Message
		id *uuid.UUID
	}{{j.OnComplete, &s.OnComplete}, {j.OnFail, &s.OnFail}} {
		if continuation.m != nil {
			*continuation.id = written[n].ID
			n++
		}
	}
	ids, err := o.joins.Start(ctx, tx, join.Join{
		Label: j.Label, Members: s.Steps, OnComplete: s.OnComplete, OnFail: s.OnFail, Policy: j.Policy,
		Deadline: j.Deadline,
	})
	if err != nil {
		return Started{}, err
	}
	s.ID = ids[0]
	return s, nil
}

// Joins are the joins of the outbox: to look at them, to add messages as steps, to cancel.
func (o *Outbox) Joins() *join.Joins { return o.joins }

// messages are the steps, and then what continues the join.
func (j Join) messages() []Message {
	all := append([]Message{}, j.Steps...)
	for _, m := range []*Message{j.OnComplete, j.OnFail} {
		if m != nil {
			all = append(all, *m)
		}
	}
	return all
}

// check checks the join by itself, and what its messages may not have.
func (j Join) check() error {
	if len(j.Steps) > workqueue.MaxBatch {
		return validate.Errorf("steps", "has %d of them, at most %d fit one call: Add the others", len(j.Steps),
			workqueue.MaxBatch)
	}
	if err := (join.Join{Label: j.Label, Policy: j.Policy, Deadline: j.Deadline}).Validate(); err != nil {
		return err
	}
	all := j.messages()
	for i, m := range all {
		if m.DedupKey != "" {
			return &workqueue.ItemError{Item: "message", Index: i, Count: len(all), Err: validate.Errorf("dedup key",
				"is set on a message of a join")}
		}
	}
	return nil
}
