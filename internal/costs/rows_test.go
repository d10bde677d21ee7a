package costs_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// rowTable is a table of the core without any domain.
type rowTable struct {
	*lab
	table *workqueue.Table
	name  string
}

func (l *lab) rows() *rowTable {
	l.Helper()
	spec := workqueue.Spec{Schema: "public", Table: "rows"}
	up, _, err := spec.DDL()
	l.ok(err)
	l.exec(up)
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	l.ok(err)
	return &rowTable{l, table, table.Name()}
}

func (q *rowTable) insert(n int) {
	q.Helper()
	for ; n > 0; n -= enqueueBatch {
		q.ok(pgx.BeginFunc(q.Context(), q.db, func(tx pgx.Tx) error {
			_, err := q.table.Insert(q.Context(), workqueue.Pgx(tx), make([]workqueue.NewRow, min(n, enqueueBatch))...)
			return err
		}))
	}
	q.exec("VACUUM ANALYZE " + q.name)
}

func (q *rowTable) worker(pool *pgxpool.Pool, o workqueue.WorkerOptions, handler func() error) *workqueue.Worker {
	q.Helper()
	domain := workqueue.Domain[struct{}]{Table: q.table}
	w, err := workqueue.NewWorker(pool, domain, func(context.Context,
		*workqueue.Claim[struct{}]) error {
		return handler()
	}, undisturbed(o))
	q.ok(err)
	return w
}

// inPhases is inPhases of the lab with a worker of this table.
func (q *rowTable) inPhases(pool *pgxpool.Pool, n int) {
	q.Helper()
	o := workqueue.WorkerOptions{Concurrency: n}
	q.lab.inPhases(q.name, n, func(handler func() error) runner { return q.worker(pool, o, handler) }, func() {})
}
