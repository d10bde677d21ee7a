// Orders consists of two services, with a network between them that loses replies and delivers requests twice. The shop
// sends its orders to billing through an outbox. Billing receives them through an inbox, and bills each of them once.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

const orders = 500

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	billing, err := openBilling(ctx, pool)
	if err != nil {
		return err
	}
	server := httptest.NewServer(billing)
	defer server.Close()
	network := &example.Network{}
	shop, err := openShop(ctx, pool)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, shop.outbox, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	// A message may be posted again although it has arrived. Its id, which is sent as the idempotency key, is the same
	// every time.
	billingPoster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: server.URL, ContentType: "text/plain",
		Transport: network})
	if err != nil {
		return err
	}
	relay.Handle("order.placed", billingPoster.Deliver)
	// The reaper requeues the messages of a relay that has crashed. It has to run in at least one process.
	reap := func(ctx context.Context) error {
		return reaper.Run(ctx, pool, shop.outbox.Tables(), reaper.Options{Schema: "example_shop"})
	}
	if err := example.Serve(ctx, shop.takeOrders, relay.Run, reap); err != nil {
		return err
	}
	network.Wait()
	fmt.Printf("%d orders taken, %d of them rolled back; %d requests, of which %d were repeated and %d lost their "+
		"reply\n",
		orders, shop.declined, network.Requests.Load(), network.Repeated.Load(), network.Lost.Load())
	return example.Reconcile(ctx, pool, `
		WITH orders AS (SELECT count(*) AS n, sum(cents)::bigint AS cents FROM example_shop.orders)
		VALUES ('orders kept', (SELECT n FROM orders), $1 - $2::bigint),
		('bills', (SELECT count(*) FROM example_billing.bills), (SELECT n FROM orders)),
		('orders billed', (SELECT count(DISTINCT order_id) FROM example_billing.bills
			WHERE order_id IN (SELECT id FROM example_shop.orders)), (SELECT n FROM orders)),
		('cents billed', (SELECT sum(cents)::bigint FROM example_billing.bills), (SELECT cents FROM orders))`,
		orders, shop.declined)
}

// A Shop is the service that takes orders.
type Shop struct {
	pool     *pgxpool.Pool
	outbox   *outbox.Outbox
	declined int
}

func openShop(ctx context.Context, pool *pgxpool.Pool) (*Shop, error) {
	// Billing is nearby, so retries may start soon.
	retry := workqueue.Retry{Growth: workqueue.Exponential, Base: 50 * time.Millisecond, Cap: time.Minute, Jitter: 0.5}
	box, err := outbox.Open(outbox.Options{Schema: "example_shop", Retry: retry})
	if err != nil {
		return nil, err
	}
	err = example.Fresh(ctx, pool, "example_shop", `CREATE TABLE example_shop.orders (id int PRIMARY KEY, cents int)`)
	return &Shop{pool: pool, outbox: box}, err
}

func (s *Shop) takeOrders(ctx context.Context) error {
	for id := range orders {
		switch err := s.takeOrder(ctx, id, 100+id); {
		case errors.Is(err, errDeclined):
			s.declined++
		case err != nil:
			return err
		}
	}
	return example.Until(ctx, s.pool, `SELECT NOT EXISTS (SELECT FROM example_shop.outbox WHERE completed_at IS NULL)`)
}

var errDeclined = errors.New("the card was declined")

// takeOrder writes an order and the message about it in one transaction. If the card is declined at the end, both are
// rolled back.
func (s *Shop) takeOrder(ctx context.Context, id, cents int) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO example_shop.orders VALUES ($1, $2)`, id, cents); err != nil {
			return err
		}
		message := outbox.Message{Topic: "order.placed", Payload: fmt.Appendf(nil, "%d %d", id, cents)}
		if _, err := s.outbox.Enqueue(ctx, workqueue.Pgx(tx), message); err != nil {
			return err
		}
		if id%8 == 3 {
			return errDeclined
		}
		return nil
	})
}
