package inbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Begin takes the message's key in a transaction of your own, of whatever library, and says whether it is
// this transaction's to process: then write its effects and commit. [Processed] is true from that commit on
// and has never been if the transaction is rolled back, by whatever means; the key is free again then. Begin cannot
// know how the transaction ends: see to it that nothing of yours ends it by a statement before you commit.
//
// It is for consumers that hold a transaction already, or process several messages in one. It waits for
// nobody, so two transactions that take the same keys in any order answer [InProgress] and do not deadlock.
// Each key that is taken costs a subtransaction: keep a transaction to some dozens of messages, since more
// than 64 subtransactions slow down everybody's snapshots.
//
// Use it under READ COMMITTED, PostgreSQL's default; stricter levels turn what would be a [Duplicate] into a
// serialization failure. After an error that is no [workqueue.ErrInvalid] roll the transaction back.
func (b *Inbox) Begin(ctx context.Context, tx workqueue.Tx, key Key) (Result, error) {
	if err := b.checkKey(key); err != nil {
		return Result{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Result{}, err
	}
	return b.begin(ctx, tx, id, key)
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

// optional is NULL for a nil slice, whatever the driver makes of one.
func optional(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
