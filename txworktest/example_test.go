package txworktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// shop is the application of the example: every order that is placed is shipped once.
type shop struct {
	pool *pgxpool.Pool
	box  *outbox.Outbox
}

func newExampleShop(t testing.TB, db *txworktest.DB) *shop {
	db.Exec(t, "CREATE TABLE orders (id int PRIMARY KEY, shipped int NOT NULL DEFAULT 0)")
	box, err := outbox.Open(outbox.Options{Schema: db.Schema})
	if err != nil {
		t.Fatal(err)
	}
	return &shop{db.Pool, box}
}

type order struct {
	Order int `json:"order"`
}

func (s *shop) Place(ctx context.Context, tx pgx.Tx, id int) error {
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", id); err != nil {
		return err
	}
	_, err := s.box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Key: fmt.Sprint(id),
		Payload: fmt.Appendf(nil, `{"order": %d}`, id)})
	return err
}

func (s *shop) Ship(ctx context.Context, m *outbox.Delivery) error {
	var o order
	if err := json.Unmarshal(m.Payload, &o); err != nil {
		return err
	}
	return m.Tx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE orders SET shipped = shipped + 1 WHERE id = $1", o.Order)
		if err == nil && tag.RowsAffected() == 0 {
			return workqueue.Permanent(errors.New("no such order"))
		}
		return err
	})
}

func (s *shop) relay(t testing.TB, ship func(context.Context, *outbox.Delivery) error) *outbox.Relay {
	r, err := outbox.NewRelay(s.pool, s.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Handle("order.placed", ship)
	return r
}

// A test in a transaction: nothing commits, and nothing has to be cleaned up.
func TestPlacingAnOrder(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	shop := newExampleShop(t, db)
	tx := db.Begin(t)

	if err := shop.Place(t.Context(), tx, 7); err != nil {
		t.Fatal(err)
	}
	txworktest.RequireEnqueued(t, tx, shop.box, txworktest.Topic("order.placed"), txworktest.JSON(order{7}))

	if h := txworktest.RunOne(t, tx, shop.relay(t, shop.Ship)); h.Outcome != txworktest.Done {
		t.Error(h)
	}
}

// A test on a pool: everything commits as in production. Here the lease is lost while the handler runs.
func TestAnOrderIsShippedOnce(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	shop := newExampleShop(t, db)
	place := func(tx pgx.Tx) error { return shop.Place(t.Context(), tx, 7) }
	if err := pgx.BeginFunc(t.Context(), db.Pool, place); err != nil {
		t.Fatal(err)
	}

	faults := txworktest.NewFaults(t)
	faults.Before(1, txworktest.LoseLease(db.Pool, shop.box))
	for _, h := range txworktest.DrainAll(t, db.Pool, shop.relay(t, txworktest.Inject(faults, shop.Ship))) {
		t.Log(h)
	}
	var shipped int
	if err := db.Pool.QueryRow(t.Context(), "SELECT shipped FROM orders WHERE id = 7").Scan(&shipped); err != nil ||
		shipped != 1 {
		t.Errorf("shipped %d times, %v", shipped, err)
	}
}

// The message of an order that does not exist becomes a dead letter.
func TestShippingAnUnknownOrder(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	shop := newExampleShop(t, db)
	tx := db.Begin(t)
	if _, err := shop.box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "order.placed",
		Payload: []byte(`{"order": 8}`)}); err != nil {
		t.Fatal(err)
	}
	if h := txworktest.RunOne(t, tx, shop.relay(t, shop.Ship)); h.Outcome != txworktest.Failed ||
		h.Error != "no such order" {
		t.Error(h)
	}
}
