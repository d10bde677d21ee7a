// Package invoices is a queue with a table of its own. Its rows are invoices, and each is sent once, over its channel.
package invoices

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// Spec describes the table in a schema.
func Spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:  schema,
		Table:   "invoices",
		Columns: workqueue.ColumnsOf((*Invoice).columns),
		Unique:  []string{"number"},
		Labels:  []string{"channel"},
	}
}

// Invoices are the invoices of one table. They hold no connection and are safe for concurrent use.
type Invoices struct{ table *workqueue.Table }

// Open validates the Spec. It does not access the database.
func Open(schema string, t workqueue.Telemetry) (*Invoices, error) {
	table, err := workqueue.Open(Spec(schema), t)
	if err != nil {
		return nil, err
	}
	return &Invoices{table}, nil
}

// Table returns the table of the invoices, for the reaper, statistics and tests.
func (s *Invoices) Table() *workqueue.Table { return s.table }

// An Invoice is what an application enqueues.
type Invoice struct {
	Number   string // unique
	Channel  string // says which handler sends it
	Customer string
	Cents    int64 // above zero
}

// columns names each column once, with the field that holds it.
func (v *Invoice) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "number", Type: "text", NotNull: true}, &v.Number)
	c.Field(workqueue.Column{Name: "channel", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Max: topics.MaxLength, Stored: true}}, &v.Channel)
	c.Field(workqueue.Column{Name: "customer", Type: "text", NotNull: true}, &v.Customer)
	c.Field(workqueue.Column{Name: "cents", Type: "bigint", NotNull: true,
		Bound: workqueue.Bound{Min: 1, Stored: true}}, &v.Cents)
}

// Enqueue writes an invoice in the application's transaction. If its number exists already, the result is a Duplicate
// and nothing is written.
func (s *Invoices) Enqueue(ctx context.Context, tx workqueue.Tx, v Invoice) (workqueue.Enqueued, error) {
	enqueued, err := s.EnqueueMany(ctx, tx, v)
	if err != nil {
		return workqueue.Enqueued{}, err
	}
	return enqueued[0], nil
}

// EnqueueMany is [Invoices.Enqueue] for any number of invoices. The results are in their order.
func (s *Invoices) EnqueueMany(ctx context.Context, tx workqueue.Tx, list ...Invoice) ([]workqueue.Enqueued, error) {
	rows := make([]workqueue.NewRow, len(list))
	for i, v := range list {
		rows[i].Values = workqueue.ValuesOf(&v, (*Invoice).columns)
	}
	return s.table.Insert(ctx, tx, rows...)
}

// A Delivery is an invoice that is passed to its handler.
type Delivery struct {
	Invoice
	Attempt int // 1 is the first

	claim *workqueue.Claim[Delivery]
}

// Tx runs fn in a transaction and settles the invoice in it: what fn writes commits if and only if the settle does.
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return d.claim.Tx(ctx, fn)
}

// A Handler sends one invoice. Its result settles it, see [workqueue.Handler].
type Handler = func(ctx context.Context, d *Delivery) error

// A Worker passes invoices to the handlers of their channels. Register a handler for each channel.
type Worker struct{ *topics.Worker[Handler] }

// NewWorker creates a worker. Register its handlers, then call Run or make it a part of a service.
func NewWorker(pool *pgxpool.Pool, s *Invoices, o workqueue.WorkerOptions) (*Worker, error) {
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: s.table, Columns: (*Delivery).columns},
		Name:   "invoices",
		Runner: "worker",
		Topic:  func(d *Delivery) string { return d.Channel },
		Handle: deliver,
	}, o)
	if err != nil {
		return nil, err
	}
	return &Worker{worker}, nil
}

func deliver(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
	d := &c.Body
	d.Attempt, d.claim = c.Attempt, c
	return h(ctx, d)
}
