// Command producers measures what an outbox costs the application that writes to it: transactions with one insert of
// the application's and one message each, while a relay delivers. It starts a private server, on a disk that is as slow
// as the one that slowdisk.c makes of it, see run.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// triggers are how an insert is announced.
var triggers = map[string]string{
	"announcer": "SELECT",
	"off":       `ALTER TABLE txwork.outbox DISABLE TRIGGER outbox_announce`,
	"always": `CREATE OR REPLACE FUNCTION txwork.outbox_announce() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_notify('txwork.outbox', (extract(epoch FROM now()) * 1000000)::bigint::text); RETURN NULL; END $$`,
}

type options struct {
	producers int
	rate      float64
	seconds   int
	trigger   string
}

func main() {
	var o options
	flag.IntVar(&o.producers, "producers", 32, "connections that write")
	flag.Float64Var(&o.rate, "rate", 0, "transactions a second of all producers; 0: as many as they can")
	flag.IntVar(&o.seconds, "seconds", 5, "how long to write")
	flag.StringVar(&o.trigger, "trigger", "announcer", "announcer, off or always")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	trigger, ok := triggers[o.trigger]
	if !ok {
		return fmt.Errorf("-trigger %q: must be announcer, off or always", o.trigger)
	}
	server, err := localpg.Start(ctx, localpg.Options{Durable: true,
		Settings: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	if err != nil {
		return err
	}
	defer server.Stop()
	config, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		return err
	}
	config.MaxConns = int32(o.producers) + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := migrations.New(pool, migrations.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, trigger); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE orders (id uuid PRIMARY KEY, note text)"); err != nil {
		return err
	}
	return measure(ctx, pool, o)
}

func measure(ctx context.Context, pool *pgxpool.Pool, o options) error {
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	relay.Handle("order.placed", func(context.Context, *outbox.Delivery) error { return nil })
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	var crew errgroup.Group
	crew.Go(func() error { return relay.Run(relaying) })

	if err := produce(ctx, pool, box, o, time.Second); err != nil { // caches, plans, and whoever has to wake up
		return err
	}
	var warm int64
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&warm); err != nil {
		return err
	}
	var begun time.Time
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&begun); err != nil {
		return err
	}
	length := time.Duration(o.seconds) * time.Second
	if err := produce(ctx, pool, box, o, length); err != nil {
		return err
	}
	var total int64
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&total); err != nil {
		return err
	}
	for left := int64(1); left > 0; time.Sleep(10 * time.Millisecond) {
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM txwork.outbox WHERE status <> 2").Scan(&left); err != nil {
			return err
		}
	}
	var p50, p99, most float64
	err = pool.QueryRow(ctx,
		`SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w.ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY w.ms),
			max(w.ms)
		FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 * 1000 AS ms FROM txwork.outbox
			WHERE created_at >= $1) AS w`, begun).Scan(&p50, &p99, &most)
	fmt.Printf("%-9s %2d producers, %6.0f transactions a second, done after p50 %6.1f ms, p99 %6.1f ms, at most "+
		"%6.1f ms\n",
		o.trigger, o.producers, float64(total-warm)/length.Seconds(), p50, p99, most)
	stop()
	return errors.Join(err, crew.Wait())
}

// produce has every producer write for a while.
func produce(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, o options, length time.Duration) error {
	begun := time.Now()
	var number atomic.Int64
	var crew errgroup.Group
	for range o.producers {
		crew.Go(func() error {
			for {
				next := begun
				if n := number.Add(1); o.rate > 0 {
					next = begun.Add(time.Duration(float64(n) / o.rate * float64(time.Second)))
				}
				time.Sleep(time.Until(next))
				if time.Since(begun) > length {
					return nil
				}
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					id := uuid.New()
					if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, 'new')", id); err != nil {
						return err
					}
					_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed",
						Payload: []byte(id.String())})
					return err
				})
				if err != nil {
					return err
				}
			}
		})
	}
	return crew.Wait()
}
