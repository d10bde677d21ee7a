package txworktest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Worker is a worker that this package can run: an *outbox.Relay, the worker of another domain, or a
// *workqueue.Worker.
type Worker interface {
	Drain() (*workqueue.Drain, error)
	DrainIn(tx pgx.Tx) (*workqueue.Drain, error)
}

// open makes a drain of the worker that uses the transaction q, or else the worker's own pool.
func open(t testing.TB, q Querier, w Worker) *workqueue.Drain {
	t.Helper()
	var d *workqueue.Drain
	var err error
	if tx, ok := q.(pgx.Tx); ok {
		d, err = w.DrainIn(tx)
	} else {
		refuseSQLTx(t, q)
		d, err = w.Drain()
	}
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	schema, table, _ := strings.Cut(d.Namespace(), ".")
	refuseForgotten(t, q, schema, table)
	return d
}

// refuseSQLTx ends a test that passes a transaction of database/sql: the worker would not see what the test has written
// in it.
func refuseSQLTx(t testing.TB, q Querier) {
	t.Helper()
	s, ok := q.(sqlQuerier)
	if !ok {
		return
	}
	if _, inTx := s.q.(interface{ Rollback() error }); inTx {
		t.Fatalf("txworktest: workers speak pgx and cannot run in a %T: begin the test's transaction with pgx, or "+
			"commit it", s.q)
	}
}
