// Command producers measures what an outbox costs the application that writes to it. Its transactions have one insert
// of the application and one message each, with or without a relay beside them. It starts a private server, whose disk
// slowdisk.c can make slower, see run.sh.
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

// triggers are the ways in which an insert is announced.
var triggers = map[string]string{
	"announcer": "SELECT",
	"off":       `ALTER TABLE txwork.outbox DISABLE TRIGGER outbox_announce`,
	"always": `CREATE OR REPLACE FUNCTION txwork.outbox_announce() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_notify('txwork.outbox', (extract(epoch FROM now()) * 1000000)::bigint::text); RETURN NULL; END $$`,
}

// A second is what a transaction writes in addition to the application's own row.
type second func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error

// seconds returns them by name. A row of a table with only a key is the least that a message can cost.
func seconds(box *outbox.Outbox) map[string]second {
	return map[string]second{
		"none": func(context.Context, pgx.Tx, uuid.UUID) error { return nil },
		"row": func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := tx.Exec(ctx, "INSERT INTO notes VALUES ($1, $2)", id, []byte(id.String()))
			return err
		},
		"message": func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed",
				Payload: []byte(id.String())})
			return err
		},
	}
}

type options struct {
	producers int
	rate      float64
	seconds   int
	trigger   string
	second    string
	relay     bool
}

// name returns the first word of the line with the result.
func (o options) name() string {
	if o.relay {
		return o.trigger
	}
	return o.second
}

func main() {
	var o options
	flag.IntVar(&o.producers, "producers", 32, "connections that write")
	flag.Float64Var(&o.rate, "rate", 0, "transactions a second of all producers; 0: as many as they can")
	flag.IntVar(&o.seconds, "seconds", 5, "how long to write")
	flag.StringVar(&o.trigger, "trigger", "announcer", "announcer, off or always")
	flag.StringVar(&o.second, "second", "message", "what a transaction writes beside the application's row: none, row "+
		"or message")
	flag.BoolVar(&o.relay, "relay", true, "whether a relay delivers beside the producers")
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
	if _, err := pool.Exec(ctx, `CREATE TABLE orders (id uuid PRIMARY KEY, note text);
		CREATE TABLE notes (id uuid PRIMARY KEY, payload bytea)`); err != nil {
		return err
	}
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		return err
	}
	write, ok := seconds(box)[o.second]
	if !ok {
		return fmt.Errorf("-second %q: must be none, row or message", o.second)
	}
	p := producing{options: o, pool: pool, box: box, write: write}
	if o.relay {
		return p.beside(ctx)
	}
	return p.alone(ctx)
}

// A producing is one run of the producers.
type producing struct {
	options
	pool  *pgxpool.Pool
	box   *outbox.Outbox
	write second
}

// alone measures the producers without a relay.
func (p producing) alone(ctx context.Context) error {
	count, _, err := p.measure(ctx)
	if err == nil {
		fmt.Printf("%-9s %2d producers, %6.0f transactions a second\n", p.name(), p.producers,
			float64(count)/float64(p.seconds))
	}
	return err
}

// beside measures the producers while a relay runs, and how long messages take.
func (p producing) beside(ctx context.Context) error {
	relay, err := outbox.NewRelay(p.pool, p.box, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	relay.Handle("order.placed", func(context.Context, *outbox.Delivery) error { return nil })
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	var crew errgroup.Group
	crew.Go(func() error { return relay.Run(relaying) })

	count, begun, err := p.measure(ctx)
	if err != nil {
		return err
	}
	for left := int64(1); left > 0; time.Sleep(10 * time.Millisecond) {
		if err := p.pool.QueryRow(ctx, "SELECT count(*) FROM txwork.outbox WHERE status <> 2").Scan(&left); err != nil {
			return err
		}
	}
	var p50, p99, most float64
	err = p.pool.QueryRow(ctx,
		`SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w.ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY w.ms),
			max(w.ms)
		FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 * 1000 AS ms FROM txwork.outbox
			WHERE created_at >= $1) AS w`, begun).Scan(&p50, &p99, &most)
	fmt.Printf("%-9s %2d producers, %6.0f transactions a second, done after p50 %6.1f ms, p99 %6.1f ms, at most "+
		"%6.1f ms\n",
		p.name(), p.producers, float64(count)/float64(p.seconds), p50, p99, most)
	stop()
	return errors.Join(err, crew.Wait())
}

// measure counts the transactions of all producers, and returns when they began, by the server's clock.
func (p producing) measure(ctx context.Context) (count int64, begun time.Time, err error) {
	if _, err := p.produce(ctx, time.Second); err != nil { // warms up caches, plans and goroutines
		return 0, begun, err
	}
	if err := p.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&begun); err != nil {
		return 0, begun, err
	}
	count, err = p.produce(ctx, time.Duration(p.seconds)*time.Second)
	return count, begun, err
}

// produce lets every producer write for the given time, and counts their transactions.
func (p producing) produce(ctx context.Context, length time.Duration) (int64, error) {
	begun := time.Now()
	var number, committed atomic.Int64
	var crew errgroup.Group
	for range p.producers {
		crew.Go(func() error {
			for {
				next := begun
				if n := number.Add(1); p.rate > 0 {
					next = begun.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
				}
				time.Sleep(time.Until(next))
				if time.Since(begun) > length {
					return nil
				}
				if err := p.transaction(ctx); err != nil {
					return err
				}
				committed.Add(1)
			}
		})
	}
	err := crew.Wait()
	return committed.Load(), err
}

// transaction runs one transaction of the application.
func (p producing) transaction(ctx context.Context) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		id := uuid.New()
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, 'new')", id); err != nil {
			return err
		}
		return p.write(ctx, tx, id)
	})
}
