package outbox

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// A batch holds validated messages, also as rows, and the rules of those that are ordered by key.
type batch struct {
	msgs  []Message
	rows  []workqueue.NewRow
	rules []keyed.Rule
}

// prepare turns messages into rows and refuses the first that the table could not hold. The core would refuse it, too,
// but it sees one chunk of a call at a time, when earlier chunks may have been written.
func (o *Outbox) prepare(ctx context.Context, msgs []Message, roleOf func(i int) role) (batch, error) {
	msgs, err := o.encoded(ctx, msgs)
	if err != nil {
		return batch{}, err
	}
	b := batch{msgs: msgs, rows: make([]workqueue.NewRow, len(msgs))}
	seen := map[uuid.UUID]int{}
	for i := range msgs {
		m := &msgs[i]
		g := o.byKey(m)
		if g != nil {
			b.rules = append(b.rules, g)
		}
		b.rows[i] = row(m, roleOf(i), g)
		err := cmp.Or(validate.Size("headers", input.HeaderSize(m.Headers), MaxHeaders), o.messages.Check(&b.rows[i]),
			checkID(seen, i, m.ID))
		if err != nil {
			return batch{}, &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
	}
	return b, nil
}

// checkID refuses an id that an earlier message of the same call has.
func checkID(seen map[uuid.UUID]int, i int, id uuid.UUID) error {
	if id == uuid.Nil {
		return nil
	}
	if first, taken := seen[id]; taken {
		return validate.Errorf("id", "%s is that of message %d, too", id, first+1)
	}
	seen[id] = i
	return nil
}
