// Customtable runs a queue with a table of the application's own: a service sends invoices, and the effect of each
// happens exactly once. The guide docs/domains.md explains this code. Package invoices is the queue.
package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/txwork/txwork/examples/customtable/invoices"
	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

//go:embed migrations/*.sql
var files embed.FS

const (
	schema = "billing"
	each   = 50 // invoices from each of two transactions
)

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := migrate(ctx, pool, db); err != nil {
		return err
	}
	list, err := invoices.Open(schema, workqueue.Telemetry{})
	if err != nil {
		return err
	}
	if err := order(ctx, pool, db, list); err != nil {
		return err
	}
	all, err := newService(pool, list)
	if err != nil {
		return err
	}
	sent := func(ctx context.Context) error {
		return example.Until(ctx, pool, `SELECT count(*) = $1 FROM billing.invoices WHERE status = 2`, 2*each)
	}
	if err := example.Serve(ctx, sent, all.Run); err != nil {
		return err
	}
	return reconcile(ctx, pool)
}

// migrate creates the only table of txwork's own that is needed here, that of the service's reaper, and then the
// application's tables.
func migrate(ctx context.Context, pool *pgxpool.Pool, db *sql.DB) error {
	reapers := []migrations.Domain{migrations.Reaper}
	migrator, err := migrations.New(pool, migrations.Options{Schema: schema, Domains: reapers})
	if err != nil {
		return err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return err
	}
	own, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker() // processes that start at the same time take turns
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, own, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS billing.sent (number text PRIMARY KEY, cents bigint);
		TRUNCATE billing.sent, billing.invoices`) // what an earlier run left
	return err
}

// order enqueues invoices as an application does: an invoice exists if and only if the transaction of its order
// commits. It uses one transaction of pgx and one of database/sql.
func order(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, list *invoices.Invoices) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := list.EnqueueMany(ctx, workqueue.Pgx(tx), batch(1)...)
		return err
	})
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := list.EnqueueMany(ctx, workqueue.SQL(tx), batch(2)...); err != nil {
		return err
	}
	return tx.Commit()
}

func batch(year int) []invoices.Invoice {
	list := make([]invoices.Invoice, each)
	for i := range list {
		list[i] = invoices.Invoice{Number: fmt.Sprintf("%d-%d", year, i), Channel: "email",
			Customer: fmt.Sprintf("customer-%d", i%7), Cents: int64(100*i + 99)}
	}
	return list
}

func newService(pool *pgxpool.Pool, list *invoices.Invoices) (*service.Service, error) {
	worker, err := invoices.NewWorker(pool, list, workqueue.WorkerOptions{})
	if err != nil {
		return nil, err
	}
	worker.Handle("email", func(ctx context.Context, d *invoices.Delivery) error {
		if d.Cents%1000 == 99 && d.Attempt == 1 { // to show a retry
			return workqueue.RetryNow(errors.New("the printer is out of paper"))
		}
		return d.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO billing.sent VALUES ($1, $2)`, d.Number, d.Cents)
			return err
		})
	})
	return service.New(pool, service.Options{}, worker)
}

func reconcile(ctx context.Context, pool *pgxpool.Pool) error {
	err := example.Count(ctx, pool,
		`SELECT 'invoices done after a retry', count(*) FROM billing.invoices WHERE attempts > 1`)
	if err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `VALUES
		('invoices done', (SELECT count(*) FROM billing.invoices WHERE status = 2), $1::bigint),
		('sent', (SELECT count(*) FROM billing.sent), $1),
		('cents', (SELECT sum(cents) FROM billing.sent)::bigint, (SELECT sum(cents) FROM billing.invoices)::bigint)`,
		2*each)
}
