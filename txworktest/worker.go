package txworktest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Worker is what the kit runs: an *outbox.Relay, or the worker of another domain. P follows from it. [Core] makes one
// of a *workqueue.Worker.
type Worker[P workqueue.Processor] interface {
	Drain() (P, error)
	DrainIn(tx pgx.Tx) (P, error)
}

// Core is a worker of a table of your own as a [Worker].
func Core(w *workqueue.Worker) Worker[*workqueue.Drain] { return core{w} }

type core struct{ w *workqueue.Worker }

func (c core) Drain() (*workqueue.Drain, error)            { return c.w.Drain(), nil }
func (c core) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) { return c.w.DrainIn(tx), nil }

// open makes the processor that works where the kit looks.
func open[P workqueue.Processor](t testing.TB, q Querier, w Worker[P]) P {
	t.Helper()
	var p P
	var err error
	if tx, ok := q.(pgx.Tx); ok {
		p, err = w.DrainIn(tx)
	} else {
		refuseSQLTx(t, q)
		p, err = w.Drain()
	}
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	return p
}

// refuseSQLTx ends a test whose worker would not see what the test has written.
func refuseSQLTx(t testing.TB, q Querier) {
	t.Helper()
	s, ok := q.(sqlQuerier)
	if !ok {
		return
	}
	if _, inTx := s.q.(interface{ Rollback() error }); inTx {
		t.Fatalf("txworktest: workers speak pgx and cannot run in a %T: begin the test's transaction with pgx, or commit it", s.q)
	}
}

// drains are a processor's parts, which can be bounded: itself, or those of a group.
func drains(t testing.TB, p workqueue.Processor) []*workqueue.Drain {
	t.Helper()
	switch p := p.(type) {
	case *workqueue.Drain:
		return []*workqueue.Drain{p}
	case interface{ Drains() []*workqueue.Drain }:
		return p.Drains()
	}
	t.Fatalf("txworktest: %T is made of no workqueue.Drain, so its rows cannot be handled one by one", p)
	return nil
}
