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

// openBilling returns the service that bills orders: an HTTP handler, which is called more than once for some orders.
func openBilling(ctx context.Context, pool *pgxpool.Pool) (http.Handler, error) {
	// The window must be longer than the time after which the shop may still send a message again, for example because
	// an operator redrives a dead letter.
	box, err := inbox.Open(inbox.Options{Schema: "example_billing", DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	// The table has no constraint that prevents a second bill for an order. The inbox prevents it.
	err = example.Fresh(ctx, pool, "example_billing", `CREATE TABLE example_billing.bills (order_id int, cents int)`)
	if err != nil {
		return nil, err
	}
	return inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"}, bill)
}

// bill runs in the transaction in which the inbox records the message: both commit or neither does.
func bill(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
	var id, cents int
	if _, err := fmt.Sscan(string(m.Body), &id, &cents); err != nil {
		return workqueue.Permanent(err) // the shop must not retry: its message is a dead letter
	}
	_, err := tx.Exec(ctx, `INSERT INTO example_billing.bills VALUES ($1, $2)`, id, cents)
	return err
}
