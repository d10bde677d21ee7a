package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A handler may end its transaction with a text such as ROLLBACK, which no interface can prevent. Its writes are then
// gone, so its claim is not acked.
func TestTxThatWasEndedByTextIsNotSettled(t *testing.T) {
	t.Parallel()
	const ended = "was ended by the handler, with ROLLBACK or COMMIT"
	const unmarked = "or its settings were reset, as RESET ALL"
	cases := map[string]struct {
		statements []string
		booked     int
		says       string
	}{
		"rollback":                 {[]string{"ROLLBACK"}, 0, ended},
		"rollback and begin":       {[]string{"ROLLBACK", "BEGIN"}, 0, unmarked},
		"rollback and chain":       {[]string{"ROLLBACK AND CHAIN"}, 0, unmarked},
		"commit":                   {[]string{"COMMIT"}, 1, ended},
		"commit and begin":         {[]string{"COMMIT", "BEGIN"}, 1, unmarked},
		"rollback inside of a try": {[]string{"SAVEPOINT mine", "ROLLBACK", "BEGIN", "SAVEPOINT mine"}, 0, unmarked},
		"reset":                    {[]string{"RESET ALL"}, 0, unmarked},
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newLedgerRig(t, rigOptions{
				spec: func(s *workqueue.Spec) { s.Retry = never },
				pool: func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode },
			})
			r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
				return c.Tx(ctx, func(tx pgx.Tx) error { return bookAnd(ctx, tx, c, cases[c.Body.Topic].statements) })
			})
			for name, c := range cases {
				id := r.insert(name)[0]
				r.eventually(name, func() bool {
					return r.count("id = $1 AND status <> 1 AND (status <> 0 OR due_at "+
						"> now())", id) == 1
				})
				rowWant{workqueue.Ready, 1, time.Hour, c.says, false}.check(t, r.row(id))
				if n := r.booked(id); n != c.booked {
					t.Errorf("%s: booked %d times, want %d", name, n, c.booked)
				}
			}
			id := r.insert("nothing of the kind")[0]
			r.awaitStatus(workqueue.Done, id)
			if n := r.booked(id); n != 1 {
				t.Errorf("booked %d times", n)
			}
		})
	}
}

func bookAnd(ctx context.Context, tx pgx.Tx, c *noteClaim, statements []string) error {
	err := book(ctx, tx, c)
	for _, s := range statements {
		if err == nil {
			_, err = tx.Exec(ctx, s)
		}
	}
	return err
}

// Inside a transaction of the application Claim.Tx is a savepoint, to which a statement can roll back as well.
func TestSavepointThatWasRolledBackByTextIsNotSettled(t *testing.T) {
	t.Parallel()
	r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	tx, err := r.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	ids, err := r.insertIn(tx, workqueue.NewRow{Values: []any{"undone", ""}},
		workqueue.NewRow{Values: []any{"fine", ""}})
	if err != nil {
		t.Fatal(err)
	}
	r.process(r.drain(r.worker(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		return c.Tx(ctx, func(inner pgx.Tx) error {
			if c.Body.Topic == "undone" {
				return bookAnd(ctx, inner, c, []string{"ROLLBACK TO SAVEPOINT sp_1"})
			}
			return book(ctx, inner, c)
		})
	}).DrainIn(tx)), 2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	rowWant{workqueue.Ready, 1, time.Hour, "ended by the handler", false}.check(t, r.row(ids[0]))
	r.awaitStatus(workqueue.Done, ids[1])
	if r.booked(ids[0]) != 0 || r.booked(ids[1]) != 1 {
		t.Errorf("booked %d and %d times, want 0 and 1", r.booked(ids[0]), r.booked(ids[1]))
	}
}
