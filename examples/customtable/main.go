// Customtable runs the txwork core on a table of the application's own: a queue of invoices, each sent
// exactly once in effect.
//
// The migration in migrations/ was printed by
//
//	txwork table new invoices --schema billing --column customer:text:not-null --column amount:numeric:not-null
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/workqueue"
)

//go:embed migrations/*.sql
var migrations embed.FS

// An Invoice is the table's own columns.
type Invoice struct {
	Customer string
	Amount   string // numeric, to the cent
}

var spec = workqueue.Spec{
	Schema: "billing",
	Table:  "invoices",
	Columns: []workqueue.Column{
		{Name: "customer", Type: "text", NotNull: true},
		{Name: "amount", Type: "numeric", NotNull: true},
	},
}

const invoices = 100

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrate(ctx, pool); err != nil {
		return err
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		return err
	}
	if err := order(ctx, pool, table); err != nil {
		return err
	}
	if err := send(ctx, pool, table); err != nil {
		return err
	}
	return reconcile(ctx, pool)
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS billing.sent (customer text, amount numeric);
		TRUNCATE billing.sent, billing.invoices`) // what an earlier run left
	return err
}

// order is the application: an invoice exists if and only if its order's transaction commits.
func order(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for i := range invoices {
			row := workqueue.NewRow{Values: []any{fmt.Sprintf("customer-%d", i%7), fmt.Sprintf("%d.99", i)}}
			if _, err := table.Insert(ctx, workqueue.Pgx(tx), row); err != nil {
				return err
			}
		}
		return nil
	})
}

// send works until every invoice is sent. Every tenth first attempt fails, to show a retry.
func send(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent, calls atomic.Int64
	domain := workqueue.Domain[Invoice]{
		Table:  table,
		Fields: func(i *Invoice) []any { return []any{&i.Customer, &i.Amount} },
	}
	worker, err := workqueue.NewWorker(pool, domain, func(ctx context.Context, c *workqueue.Claim[Invoice]) error {
		if calls.Add(1)%10 == 0 && c.Attempt == 1 {
			return workqueue.RetryNow(errors.New("the printer is out of paper"))
		}
		err := c.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO billing.sent VALUES ($1, $2::text::numeric)`, c.Body.Customer, c.Body.Amount)
			return err
		})
		if err == nil && sent.Add(1) == invoices {
			stop()
		}
		return err
	}, workqueue.WorkerOptions{})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func reconcile(ctx context.Context, pool *pgxpool.Pool) error {
	err := example.Count(ctx, pool, `SELECT 'invoices done after a retry', count(*) FROM billing.invoices WHERE attempts > 1`)
	if err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `VALUES
		('invoices done', (SELECT count(*) FROM billing.invoices WHERE status = 2), $1::bigint),
		('sent', (SELECT count(*) FROM billing.sent), $1),
		('cents', (SELECT sum(amount) * 100 FROM billing.sent)::bigint, (SELECT sum(amount) * 100 FROM billing.invoices)::bigint)`,
		invoices)
}
