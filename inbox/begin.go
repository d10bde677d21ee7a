package inbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Begin takes the message's key in a transaction of your own, of any library. If the answer is [Processed], write the
// message's effects in this transaction and commit it. If the transaction is rolled back, for whatever reason, the
// message was not processed and its key is free again. Begin cannot see how the transaction ends, so make sure that no
// statement of yours, such as ROLLBACK, ends it before you commit.
//
// Use it if a transaction is already open, or to process several messages in one. It does not wait for other
// transactions: a key that one of them has taken is [InProgress]. Two transactions that take the same keys in different
// orders therefore do not deadlock. Each key that is taken costs a subtransaction. Limit a transaction to a few dozen
// messages, because more than 64 subtransactions slow down the snapshots of all sessions.
//
// Metrics count the answers, like those of [Inbox.Process], even if the transaction is rolled back later.
//
// Use READ COMMITTED, PostgreSQL's default: under stricter isolation levels, a [Duplicate] can be a serialization
// failure instead. After any error but a [workqueue.ErrInvalid], roll the transaction back.
func (b *Inbox) Begin(ctx context.Context, tx workqueue.Tx, key Key) (Result, error) {
	if err := b.checkKey(key); err != nil {
		return Result{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Result{}, err
	}
	result, err := b.begin(ctx, tx, id, key)
	b.table.CountArrival(ctx, key.values(), result.Answer.String(), err)
	return result, err
}

func (b *Inbox) begin(ctx context.Context, tx workqueue.Tx, id uuid.UUID, key Key) (Result, error) {
	var answer string
	var result Result
	read := func(scan func(...any) error) error { return scan(&answer, &result.ID, &result.Status) }
	err := b.table.In(tx).Query(ctx, read, b.statements.begin,
		key.Consumer, key.Source, key.MessageID, optional(key.hash()), optional(key.payload()), id)
	if err != nil {
		return Result{}, err
	}
	if result.Answer, err = parseAnswer(answer); err != nil {
		return Result{}, err
	}
	return result, nil
}

// optional turns a nil slice into NULL with every driver.
func optional(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
