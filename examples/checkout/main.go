// Checkout is a saga. For each order, three steps run concurrently: they reserve the stock, charge the card and book a
// courier. If all three succeed, the order is confirmed. If one fails for good, the effects of the others are undone.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// The stock has 80 pieces, and each of the ten cards has 50 euros. That is not enough for all orders, so some sagas
// fail.
const (
	orders = 120
	tables = `SET search_path = example_checkout;
		CREATE TABLE orders (id text PRIMARY KEY, card int, cents int, state text DEFAULT 'placed');
		CREATE TABLE stock AS SELECT 80 AS pieces;
		CREATE TABLE cards AS SELECT card, 5000 AS cents FROM generate_series(0, 9) AS card;
		CREATE TABLE reservations (order_id text);
		CREATE TABLE charges (order_id text, card int, cents int);
		CREATE TABLE bookings (order_id text);
		RESET search_path`
)

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Fresh(ctx, pool, "example_checkout", tables); err != nil {
		return err
	}
	retry := workqueue.Retry{Growth: workqueue.Constant, Base: 20 * time.Millisecond, Cap: 20 * time.Millisecond}
	box, err := outbox.Open(outbox.Options{Schema: "example_checkout", MaxAttempts: 3, Retry: retry})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	relay.Handle("stock.reserve", reserve)
	relay.Handle("card.charge", charge)
	relay.Handle("courier.book", book)
	relay.Handle("order.confirm", writes(`UPDATE example_checkout.orders SET state = 'confirmed' WHERE id = $1`))
	relay.Handle("order.compensate", writes(compensate))
	sell := func(ctx context.Context) error {
		for i := range orders {
			if err := checkout(ctx, pool, box, fmt.Sprintf("order-%d", i), i%10, 500+i); err != nil {
				return err
			}
		}
		return example.Until(ctx, pool,
			`SELECT NOT EXISTS (SELECT FROM example_checkout.orders WHERE state = 'placed')`)
	}
	if err := example.Serve(ctx, sell, relay.Run); err != nil {
		return err
	}
	return reconcile(ctx, pool)
}

// checkout writes the order and its saga in one transaction. No process has to coordinate the saga or live for as long
// as it takes: after the last step is settled, OnComplete or OnFail is delivered.
func checkout(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, id string, card, cents int) error {
	message := func(topic string) outbox.Message { return outbox.Message{Topic: topic, Key: id} }
	confirm, undo := message("order.confirm"), message("order.compensate")
	saga := outbox.Join{
		Label:      id,
		Steps:      []outbox.Message{message("stock.reserve"), message("card.charge"), message("courier.book")},
		OnComplete: &confirm,
		OnFail:     &undo, // after all steps have ended (the default policy), so none takes effect after the undo
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO example_checkout.orders VALUES ($1, $2, $3)`, id, card,
			cents); err != nil {
			return err
		}
		_, err := box.StartJoin(ctx, workqueue.Pgx(tx), saga)
		return err
	})
}

// Each step writes in the transaction that settles its message (see once), so it takes effect exactly once.

func reserve(ctx context.Context, m *outbox.Delivery) error {
	return once(ctx, m, errors.New("sold out"), `
		WITH taken AS (UPDATE example_checkout.stock SET pieces = pieces - 1 WHERE pieces > 0 RETURNING 1)
		INSERT INTO example_checkout.reservations SELECT $1 FROM taken`)
}

func charge(ctx context.Context, m *outbox.Delivery) error {
	return once(ctx, m, errors.New("the card is empty"), `
		WITH paid AS (UPDATE example_checkout.cards AS c SET cents = c.cents - o.cents
			FROM example_checkout.orders AS o WHERE o.id = $1 AND c.card = o.card AND c.cents >= o.cents
			RETURNING o.card, o.cents)
		INSERT INTO example_checkout.charges SELECT $1, card, cents FROM paid`)
}

// book fails in the first attempt for orders that end in 3, and in every attempt for those that end in 7.
func book(ctx context.Context, m *outbox.Delivery) error {
	last := m.Key[len(m.Key)-1]
	if last == '7' || last == '3' && m.Attempt == 1 {
		return errors.New("the courier does not answer")
	}
	return once(ctx, m, nil, `INSERT INTO example_checkout.bookings VALUES ($1)`)
}

// compensate undoes the effects that it finds, so it need not know which steps have succeeded.
const compensate = `
	WITH unreserved AS (DELETE FROM example_checkout.reservations WHERE order_id = $1 RETURNING 1),
	restocked AS (UPDATE example_checkout.stock SET pieces = pieces + (SELECT count(*) FROM unreserved)),
	uncharged AS (DELETE FROM example_checkout.charges WHERE order_id = $1 RETURNING card, cents),
	refunded AS (UPDATE example_checkout.cards AS c SET cents = c.cents + u.cents FROM uncharged AS u WHERE c.card = u.card),
	unbooked AS (DELETE FROM example_checkout.bookings WHERE order_id = $1)
	UPDATE example_checkout.orders SET state = 'refused' WHERE id = $1`

func writes(statement string) outbox.Handler {
	return func(ctx context.Context, m *outbox.Delivery) error { return once(ctx, m, nil, statement) }
}

// once runs a statement for an order in the transaction that settles the message. If the statement writes no row, the
// message fails for good with the refusal.
func once(ctx context.Context, m *outbox.Delivery, refusal error, statement string) error {
	return m.Tx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement, m.Key)
		if err == nil && tag.RowsAffected() == 0 {
			return workqueue.Permanent(refusal)
		}
		return err
	})
}

func reconcile(ctx context.Context, pool *pgxpool.Pool) error {
	err := example.Count(ctx, pool, `SELECT 'steps failed: ' || last_error, count(*) FROM example_checkout.outbox
		WHERE status = 3 AND cancelled_at IS NULL GROUP BY last_error`)
	if err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `
		WITH confirmed AS (SELECT id, cents FROM example_checkout.orders WHERE state = 'confirmed')
		VALUES ('orders confirmed or refused', (SELECT count(*) FROM example_checkout.orders WHERE state <> 'placed'), $1::bigint),
		('pieces reserved, for confirmed orders', (SELECT count(*) FROM example_checkout.reservations), (SELECT count(*) FROM confirmed)),
		('couriers booked', (SELECT count(*) FROM example_checkout.bookings), (SELECT count(*) FROM confirmed)),
		('cents charged', (SELECT sum(cents) FROM example_checkout.charges), (SELECT sum(cents) FROM confirmed)),
		('pieces in stock or reserved', (SELECT pieces FROM example_checkout.stock) + (SELECT count(*) FROM confirmed), 80),
		('cents on cards or charged', (SELECT sum(cents) FROM example_checkout.cards) + (SELECT sum(cents) FROM confirmed), 50000),
		('sagas completed', (SELECT count(*) FROM example_checkout.outbox_join WHERE status = 1), (SELECT count(*) FROM confirmed)),
		('sagas failed', (SELECT count(*) FROM example_checkout.outbox_join WHERE status = 2), $1 - (SELECT count(*) FROM confirmed))`, orders)
}
