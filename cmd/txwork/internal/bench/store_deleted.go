package bench

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// deletedStore is a table of the core whose rows are deleted when they are done.
type deletedStore struct {
	rows    *workqueue.Table
	options workqueue.WorkerOptions
}

func prepareDeleted(ctx context.Context, l *lab) error {
	up, down, err := deletedSpec(l).DDL()
	return l.prepare(ctx, up, down, err)
}

// openDeletedStore opens a table that exists.
func openDeletedStore(l *lab, concurrency int) (*deletedStore, error) {
	rows, err := workqueue.Open(deletedSpec(l), l.telemetry())
	return &deletedStore{rows: rows, options: workqueue.WorkerOptions{Concurrency: concurrency,
		ShutdownTimeout: shutdownLimit}}, err
}

func deletedSpec(l *lab) workqueue.Spec {
	return workqueue.Spec{
		Schema:     l.schema,
		Table:      "deleted",
		Columns:    workqueue.ColumnsOf((*deletedBody).columns),
		Retry:      benchRetry,
		DeleteDone: true,
	}
}

// A deletedBody is the domain columns of a row.
type deletedBody struct {
	topic   string
	payload []byte
}

func (b *deletedBody) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "topic", Type: "text", NotNull: true}, &b.topic)
	c.Field(workqueue.Column{Name: "payload", Type: "bytea", NotNull: true}, &b.payload)
}

func (s *deletedStore) table() string { return s.rows.Spec().Table }

func (s *deletedStore) insert(ctx context.Context, tx pgx.Tx, parcels []parcel) error {
	for len(parcels) > 0 {
		chunk := parcels[:min(len(parcels), workqueue.MaxBatch)]
		rows := make([]workqueue.NewRow, len(chunk))
		for i, p := range chunk {
			payload, _ := p.MarshalBinary()
			rows[i].Values = []any{p.Kind(), payload}
		}
		if _, err := s.rows.Insert(ctx, workqueue.Pgx(tx), rows...); err != nil {
			return err
		}
		parcels = parcels[len(chunk):]
	}
	return nil
}

func (s *deletedStore) worker(pool *pgxpool.Pool, handle handle) (runner, error) {
	domain := workqueue.Domain[deletedBody]{Table: s.rows, Columns: (*deletedBody).columns}
	handler := func(_ context.Context, c *workqueue.Claim[deletedBody]) error {
		var p parcel
		if err := p.UnmarshalBinary(c.Body.payload); err != nil {
			return err
		}
		return handle(p.number, c.Attempt)
	}
	return workqueue.NewWorker(pool, domain, handler, s.options)
}

func (s *deletedStore) done(ctx context.Context, l *lab, n int64) (int64, error) {
	var left int64
	err := l.meter.query(ctx, []any{&left}, "SELECT count(*) FROM "+l.in(s.table()))
	return n - left, err
}
