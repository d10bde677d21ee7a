package outbox

import (
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
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
	// the server until then, see package keyed. Relays wait for none of them.
	//
	// A message that has to be retried, or is due later, holds up those behind it. What happens when it has
	// failed for good is [Options].OnFailure.
	PerKey
)

func (o Options) checkOrdering() error {
	switch {
	case o.Ordering > PerKey:
		return validate.Errorf("ordering", "is %d, want Unordered or PerKey", o.Ordering)
	case o.OnFailure > keyed.Skip:
		return validate.Errorf("on failure", "is %d, want keyed.Block, keyed.Park or keyed.Skip", uint8(o.OnFailure))
	case o.OnFailure != keyed.Block && o.Ordering != PerKey:
		return validate.Errorf("on failure", "needs the ordering PerKey: without it no message is behind another")
	}
	return nil
}
