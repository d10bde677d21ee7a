package workqueue_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// An invoiceRow has the application's own columns of its table.
type invoiceRow struct {
	Customer string
	Cents    int64
}

// columns names each column once, with the field that holds it.
func (i *invoiceRow) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "customer", Type: "text", NotNull: true}, &i.Customer)
	c.Field(workqueue.Column{Name: "cents", Type: "bigint", NotNull: true}, &i.Cents)
}

// This is a queue on a table of your own. `txwork table new` prints the table's migration; examples/customtable is a
// complete program.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	table, err := workqueue.Open(workqueue.Spec{
		Schema:  "billing",
		Table:   "invoices",
		Columns: workqueue.ColumnsOf((*invoiceRow).columns),
	}, workqueue.Telemetry{})
	if err != nil {
		log.Fatal(err)
	}

	// The producer: the row exists if and only if the transaction commits.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := table.Insert(ctx, workqueue.Pgx(tx), workqueue.NewRow{
			Values: workqueue.ValuesOf(&invoiceRow{"Ada", 4200}, (*invoiceRow).columns),
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	// The worker: what the handler writes in Tx commits together with the acknowledgement.
	domain := workqueue.Domain[invoiceRow]{Table: table, Columns: (*invoiceRow).columns}
	worker, err := workqueue.NewWorker(pool, domain, func(ctx context.Context, c *workqueue.Claim[invoiceRow]) error {
		return c.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO billing.sent VALUES ($1, $2)`, c.Body.Customer, c.Body.Cents)
			return err
		})
	}, workqueue.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
