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

	// PerKey delivers the messages of one [Message].Key one at a time, in the order in which their transactions commit.
	// Messages with different keys are delivered concurrently.
	//
	// A message with an empty Key is not ordered, not even with other messages without one. Enqueue accepts it, because
	// an outbox may carry ordered messages beside others that need no order, which then neither wait nor make their
	// writers take turns.
	//
	// Transactions that write messages of the same key take turns: the second waits in its Enqueue until the first has
	// ended. Keep them short, and write no more than a few thousand keys in one transaction: each key holds a lock of
	// the server until the transaction ends, see package keyed. Relays never wait for these transactions.
	//
	// A message that is retried, or is due later, delays the messages behind it. [Options].OnFailure decides what
	// happens when it has failed for good.
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
