// Command quickstart takes orders and ships them. `quickstart place ID [ADDRESS]` writes an order and its message in
// one transaction; `quickstart work` delivers messages until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("TXWORK_DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "place":
		return place(ctx, pool, box, args[1], nil)
	case len(args) == 3 && args[0] == "place":
		return place(ctx, pool, box, args[1], &args[2])
	case len(args) == 1 && args[0] == "work":
		return work(ctx, pool, box)
	default:
		return errors.New("usage: quickstart place ID [ADDRESS] | quickstart work")
	}
}

// place writes an order and its message in one transaction: both commit or neither does.
func place(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, id string, address *string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, address) VALUES ($1, $2)`, id, address); err != nil {
			return err
		}
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Payload: []byte(id)})
		return err
	})
}

// work runs a service with the relay until ctx is cancelled. The service also runs the reaper.
func work(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox) error {
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	relay.Handle("order.placed", func(ctx context.Context, m *outbox.Delivery) error {
		return ship(ctx, pool, string(m.Payload))
	})
	s, err := service.New(pool, service.Options{}, relay)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// ship is where a real application would call its carrier. After an error, the message is retried. After a permanent
// error, it is a dead letter at once.
func ship(ctx context.Context, pool *pgxpool.Pool, order string) error {
	var address *string
	if err := pool.QueryRow(ctx, `SELECT address FROM orders WHERE id = $1`, order).Scan(&address); err != nil {
		return err
	}
	if address == nil {
		return workqueue.Permanent(fmt.Errorf("order %s has no address", order))
	}
	fmt.Printf("order %s: shipped to %s\n", order, *address)
	return nil
}
