package outbox

import (
	"cmp"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// check refuses the first message that the table could not hold. The core would refuse it too, but it sees
// one chunk of a call at a time, and here nothing has been written yet.
func (o *Outbox) check(msgs []Message) error {
	seen := map[uuid.UUID]int{}
	for i, m := range msgs {
		err := o.checkMessage(m)
		if err == nil {
			err = checkID(seen, i, m.ID)
		}
		if err != nil {
			return &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
	}
	return nil
}

func (o *Outbox) checkMessage(m Message) error {
	return cmp.Or(
		topics.Check(m.Topic),
		validate.Size("key", len(m.Key), MaxKey),
		validate.Size("dedup key", len(m.DedupKey), MaxDedupKey),
		validate.Size("payload", len(m.Payload), o.maxPayload),
		validate.Size("headers", input.HeaderSize(m.Headers), MaxHeaders),
		o.table.Check(o.row(m, alone)),
	)
}

// checkID refuses an id that an earlier message of the call has.
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
