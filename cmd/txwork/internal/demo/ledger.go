package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A ledger is where a worker records the content of messages.
type ledger struct {
	pool   *pgxpool.Pool
	worker string
	enter  string // statement texts
	refuse string
}

func newLedger(pool *pgxpool.Pool, s setup) ledger {
	return ledger{
		pool: pool, worker: s.Name,
		enter: fmt.Sprintf(`INSERT INTO %s.ledger (message, transfer, debit, credit, amount, worker, attempt)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, s.Schema),
		refuse: fmt.Sprintf("INSERT INTO %s.refusals (message, worker, attempt) VALUES ($1, $2, $3)", s.Schema),
	}
}

// apply inserts a message's row and settles the message, in one transaction. It calls meanwhile between the two.
func (l ledger) apply(ctx context.Context, m *outbox.Delivery, meanwhile func()) error {
	var t Transfer
	if err := json.Unmarshal(m.Payload, &t); err != nil {
		return workqueue.Permanent(err)
	}
	err := m.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.enter, m.ID, t.ID, t.From, t.To, t.Amount, l.worker, m.Attempt)
		if err == nil {
			meanwhile()
		}
		return err
	})
	return errors.Join(err, l.note(ctx, m, err))
}

// note records a settle that was refused. Only a settle fails with a SettleError; a handler that loses its lease
// earlier fails with another error.
func (l ledger) note(ctx context.Context, m *outbox.Delivery, err error) error {
	var refused *workqueue.SettleError
	if !errors.As(err, &refused) {
		return nil
	}
	_, err = l.pool.Exec(ctx, l.refuse, m.ID, l.worker, m.Attempt)
	return err
}
