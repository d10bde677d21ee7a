package outbox

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Join is a set of messages that are delivered concurrently, and a message that is delivered when all of them have
// been.
type Join struct {
	// Label describes the join to people: at most [join.MaxLabel] bytes.
	Label string

	// Steps are the messages to wait for. Without steps, the join completes with the next fold.
	Steps []Message

	// OnComplete and OnFail are written with the steps. OnComplete is delivered if the join completes, and OnFail if it
	// fails. Both are optional. When the join fails, OnComplete ends as cancelled; when it completes, OnFail ends as
	// done without having been delivered.
	OnComplete, OnFail *Message

	// Policy decides when the join ends, and whether it has failed. Default: [join.WaitAll].
	Policy join.Policy

	// Deadline fails the join if it is still pending at this time of the database's clock. Zero: no deadline.
	Deadline time.Time
}

// Started are the ids of a join and of its messages.
type Started struct {
	ID                 uuid.UUID
	Steps              []uuid.UUID
	OnComplete, OnFail uuid.UUID // zero: none
}

// StartJoin writes a join with its messages in the application's transaction. A step counts when it is settled: as
// succeeded if it was delivered, and as failed if it has failed for good or was cancelled. The join ends some
// milliseconds after its last step.
//
// Steps and continuations cannot have a dedup key, because an existing message may hold it, which belongs to whoever
// wrote it.
//
// Everything is validated before anything is written: after an error that is a [workqueue.ErrInvalid], the transaction
// is unchanged. After any other error, roll the transaction back. One call takes at most [workqueue.MaxBatch] steps;
// [join.Joins.Add] adds more.
func (o *Outbox) StartJoin(ctx context.Context, tx workqueue.Tx, j Join) (Started, error) {
	if err := cmp.Or(o.refuses("join", "Write the messages with EnqueueMany"), j.check()); err != nil {
		return Started{}, err
	}
	n := len(j.Steps)
	all, err := o.prepare(ctx, j.messages())
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

// Joins returns the joins of the outbox, to read them, to add messages as steps and to cancel. It is nil for
// a log, which has none.
func (o *Outbox) Joins() *join.Joins { return o.joins }

// messages returns the steps, followed by the continuations.
func (j Join) messages() []Message {
	all := append([]Message{}, j.Steps...)
	for i := range all {
		all[i].part = step
	}
	for _, m := range []*Message{j.OnComplete, j.OnFail} {
		if m != nil {
			all = append(all, *m)
			all[len(all)-1].part = continuation
		}
	}
	return all
}

// check validates the join itself, and refuses messages with a dedup key. Outbox.prepare validates everything else
// about the messages.
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
