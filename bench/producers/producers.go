// Package producers measures what an outbox costs the application that writes to it. Its transactions have one insert
// of the application and one message each, with or without a relay beside them.
package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

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

// Options are a variant of the producers.
type Options struct {
	Producers int     // connections that write
	Rate      float64 // transactions a second of all producers; 0: as many as they can
	Length    time.Duration
	Trigger   string // announcer, off or always
	Second    string // what a transaction writes beside the application's row: none, row or message
	Relay     bool   // a relay delivers beside the producers
}

// Name is what the variants of a run differ in.
func (o Options) Name() string {
	if o.Relay {
		return o.Trigger
	}
	return o.Second
}

// A Result is what the producers did, and with a relay how long after its transaction began a message was done.
type Result struct {
	PerSecond     float64 // transactions
	P50, P99, Max float64 // milliseconds; 0 without a relay
}

// String formats a result on one line.
func (r Result) String() string {
	text := fmt.Sprintf("%.0f transactions a second", r.PerSecond)
	if r.P50 > 0 {
		text += fmt.Sprintf(", done after p50 %.1f ms, p99 %.1f ms, at most %.1f ms", r.P50, r.P99, r.Max)
	}
	return text
}

// Run measures a variant on an empty server.
func Run(ctx context.Context, url string, o Options) (r Result, err error) {
	pool, box, err := prepare(ctx, url, o)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	p := producing{Options: o, pool: pool, box: box, write: seconds(box)[o.Second]}
	if o.Relay {
		return p.beside(ctx)
	}
	count, _, err := p.measure(ctx)
	return Result{PerSecond: float64(count) / o.Length.Seconds()}, err
}

// prepare makes the tables, those of the application included.
func prepare(ctx context.Context, url string, o Options) (*pgxpool.Pool, *outbox.Outbox, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = int32(o.Producers) + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	m, err := migrations.New(pool, migrations.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = m.Up(ctx)
	}
	if err == nil {
		_, err = pool.Exec(ctx, triggers[o.Trigger])
	}
	if err == nil {
		_, err = pool.Exec(ctx, `CREATE TABLE orders (id uuid PRIMARY KEY, note text);
			CREATE TABLE notes (id uuid PRIMARY KEY, payload bytea)`)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	box, err := outbox.Open(outbox.Options{})
	return pool, box, err
}

// A producing is one run of the producers.
type producing struct {
	Options
	pool  *pgxpool.Pool
	box   *outbox.Outbox
	write second
}

// beside measures the producers while a relay runs, and how long messages take.
func (p producing) beside(ctx context.Context) (r Result, err error) {
	relay, err := outbox.NewRelay(p.pool, p.box, outbox.RelayOptions{})
	if err != nil {
		return r, err
	}
	relay.Handle("order.placed", func(context.Context, *outbox.Delivery) error { return nil })
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	var crew errgroup.Group
	crew.Go(func() error { return relay.Run(relaying) })

	count, begun, err := p.measure(ctx)
	if err != nil {
		return r, err
	}
	for left := int64(1); left > 0; time.Sleep(10 * time.Millisecond) {
		if err := p.pool.QueryRow(ctx, "SELECT count(*) FROM txwork.outbox WHERE status <> 2").Scan(&left); err != nil {
			return r, err
		}
	}
	r.PerSecond = float64(count) / p.Length.Seconds()
	err = p.pool.QueryRow(ctx,
		`SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY w.ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY w.ms),
			max(w.ms)
		FROM (SELECT extract(epoch FROM completed_at - created_at)::float8 * 1000 AS ms FROM txwork.outbox
			WHERE created_at >= $1) AS w`, begun).Scan(&r.P50, &r.P99, &r.Max)
	stop()
	return r, errors.Join(err, crew.Wait())
}

// measure counts the transactions of all producers, and returns when they began, by the server's clock.
func (p producing) measure(ctx context.Context) (count int64, begun time.Time, err error) {
	if _, err := p.produce(ctx, time.Second); err != nil { // warms up caches, plans and goroutines
		return 0, begun, err
	}
	if err := p.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&begun); err != nil {
		return 0, begun, err
	}
	count, err = p.produce(ctx, p.Length)
	return count, begun, err
}

// produce lets every producer write for the given time, and counts their transactions.
func (p producing) produce(ctx context.Context, length time.Duration) (int64, error) {
	begun := time.Now()
	var number, committed atomic.Int64
	var crew errgroup.Group
	for range p.Producers {
		crew.Go(func() error {
			for {
				next := begun
				if n := number.Add(1); p.Rate > 0 {
					next = begun.Add(time.Duration(float64(n) / p.Rate * float64(time.Second)))
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
