package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/inbox"
)

// Billing is the service that bills orders: an HTTP handler that is called more than once for some.
type Billing struct {
	pool  *pgxpool.Pool
	inbox *inbox.Inbox
}

func openBilling(ctx context.Context, pool *pgxpool.Pool) (*Billing, error) {
	// The window is longer than any message of the shop may come again: it looks after its dead letters.
	box, err := inbox.Open(inbox.Options{Schema: "example_billing", DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	// No constraint keeps a bill from being written twice: the inbox does.
	err = example.Fresh(ctx, pool, "example_billing", `CREATE TABLE example_billing.bills (order_id int, cents int)`)
	return &Billing{pool: pool, inbox: box}, err
}

func (b *Billing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := inbox.Key{Consumer: "billing", Source: "shop", MessageID: r.Header.Get("Idempotency-Key"), Body: body}
	result, err := b.inbox.Process(r.Context(), b.pool, key, func(ctx context.Context, tx pgx.Tx) error { return bill(ctx, tx, body) })
	w.WriteHeader(inbox.HTTPStatus(result, err)) // which tells the shop whether to deliver the message again
}

// bill runs in the transaction that takes note of the message: both commit or neither does.
func bill(ctx context.Context, tx pgx.Tx, body []byte) error {
	var id, cents int
	if _, err := fmt.Sscan(string(body), &id, &cents); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO example_billing.bills VALUES ($1, $2)`, id, cents)
	return err
}
