package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/workqueue"
)

// openBilling is the service that bills orders: an HTTP handler that is called more than once for some.
func openBilling(ctx context.Context, pool *pgxpool.Pool) (http.Handler, error) {
	// The window is longer than any message of the shop may come again: it looks after its dead letters.
	box, err := inbox.Open(inbox.Options{Schema: "example_billing", DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	// No constraint keeps a bill from being written twice: the inbox does.
	err = example.Fresh(ctx, pool, "example_billing", `CREATE TABLE example_billing.bills (order_id int, cents int)`)
	if err != nil {
		return nil, err
	}
	return inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"}, bill)
}

// bill runs in the transaction that takes note of the message: both commit or neither does.
func bill(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
	var id, cents int
	if _, err := fmt.Sscan(string(m.Body), &id, &cents); err != nil {
		return workqueue.Permanent(err) // the shop need not deliver it again: a dead letter, for somebody to look at
	}
	_, err := tx.Exec(ctx, `INSERT INTO example_billing.bills VALUES ($1, $2)`, id, cents)
	return err
}
