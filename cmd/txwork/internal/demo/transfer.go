package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/txwork/txwork/outbox"
)

// topic is the topic of the transfers' messages.
const topic = "demo.transfer"

// write makes a transfer in an open transaction: the money, the message about it, and a record of both.
func (b *bank) write(ctx context.Context, tx transaction, t Transfer) error {
	for _, p := range t.postings() {
		changed, err := tx.exec(ctx, b.post, p.account, p.amount)
		if err == nil && changed != 1 {
			err = fmt.Errorf("account %q is missing", p.account)
		}
		if err != nil {
			return err
		}
	}
	payload, err := json.Marshal(t)
	if err != nil {
		return err
	}
	enqueued, err := b.outbox.Enqueue(ctx, tx.outbox(), outbox.Message{Topic: topic, Key: t.From, Payload: payload})
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, b.record, t.ID, t.From, t.To, t.Amount, enqueued.ID)
	return err
}

type posting struct {
	account string
	amount  int64
}

// postings are what a transfer does to its accounts, in the order of the accounts: two transfers between the same
// accounts then lock them in the same order and cannot deadlock.
func (t Transfer) postings() [2]posting {
	debit, credit := posting{t.From, -t.Amount}, posting{t.To, t.Amount}
	if t.From < t.To {
		return [2]posting{debit, credit}
	}
	return [2]posting{credit, debit}
}

// do makes transfer i of the plan, or rolls it back, or both.
func (b *bank) do(ctx context.Context, p plan, i int) error {
	begin := b.ways()[i%ways]
	if p.rollsBack(i) {
		if err := b.attempt(ctx, begin, p.transfer(i), transaction.rollback); err != nil || !p.retried {
			return err
		}
	}
	return b.attempt(ctx, begin, p.transfer(i), transaction.commit)
}

// attempt runs one transaction and ends it with end.
func (b *bank) attempt(ctx context.Context, begin begin, t Transfer,
	end func(transaction, context.Context) error) error {
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	if err := b.write(ctx, tx, t); err != nil {
		_ = tx.rollback(context.WithoutCancel(ctx)) // the error of the write says more
		return fmt.Errorf("transfer %s: %w", t.ID, err)
	}
	return end(tx, ctx)
}
