package outbox

import (
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

// Ordering is what an [Outbox] promises about the order of its messages.
type Ordering uint8

const (
	// Unordered promises nothing and is the fastest.
	Unordered Ordering = iota

	// PerKey delivers the messages of one [Message].Key one at a time, in the order in which their
	// transactions commit. Messages of different keys, and those without one, run side by side.
	//
	// Transactions that write messages of the same key take turns: the second waits in its Enqueue until the
	// first has ended. Keep them short, and write no more than some thousands of keys in one: each holds a lock of
	// the server until then, see package gate. Relays wait for none of them.
	//
	// A message that has to be retried, or is due later, holds up those behind it. What happens when it has
	// failed for good is [Options].OnFailure.
	PerKey
)

// OnFailure says what becomes of the messages of a key behind one that has failed for good, where the
// ordering is [PerKey]. A cancelled message holds up nobody.
type OnFailure uint8

const (
	// Block keeps the key closed until somebody redrives or deletes the failed message, or lets the key go on
	// with [Outbox.SkipFailed]. Other keys go on.
	Block OnFailure = iota

	// Park sets the messages behind it aside as failed, too, those that come later included. Redriven
	// together, they are delivered in their order.
	Park

	// Skip goes on with the next message.
	Skip
)

func (f OnFailure) policy() gate.Policy {
	return [...]gate.Policy{Block: gate.Block, Park: gate.Park, Skip: gate.Skip}[f]
}

func (o Options) checkOrdering() error {
	switch {
	case o.Ordering > PerKey:
		return workqueue.Invalid("ordering", "is %d, want Unordered or PerKey", o.Ordering)
	case o.OnFailure > Skip:
		return workqueue.Invalid("on failure", "is %d, want Block, Park or Skip", o.OnFailure)
	case o.OnFailure != Block && o.Ordering != PerKey:
		return workqueue.Invalid("on failure", "needs the ordering PerKey: without it no message is behind another")
	}
	return nil
}
