package workqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

var execModes = map[string]pgx.QueryExecMode{
	"CacheStatement": pgx.QueryExecModeCacheStatement,
	"CacheDescribe":  pgx.QueryExecModeCacheDescribe,
	"DescribeExec":   pgx.QueryExecModeDescribeExec,
	"Exec":           pgx.QueryExecModeExec,
	"SimpleProtocol": pgx.QueryExecModeSimpleProtocol,
}

func withExecMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

// A row goes all the way through a worker, in every mode in which pgx can talk to the server: behind a transaction
// pooler some of its modes do not work.
func TestWorkerInEveryExecMode(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{pool: withExecMode(mode), spec: func(s *workqueue.Spec) { s.Retry = never }})
			r.exec("CREATE TABLE ledger (note uuid)")
			extended := make(chan struct{})
			w := r.start(workqueue.WorkerOptions{Concurrency: 6,
				Lease: 3 * pgtest.Lease}, func(ctx context.Context, c *noteClaim) error {
				if c.Body.Payload != "payload of "+c.Body.Topic || c.Headers["from"] != "me" {
					t.Errorf("got %+v with headers %v", c.Body, c.Headers)
				}
				switch c.Body.Topic {
				case "tx":
					return c.Tx(ctx, func(tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1)", c.ID)
						return err
					})
				case "retry":
					return errors.New("a 'quoted' \\ error with ünïcode")
				case "snooze":
					return workqueue.Snooze(time.Hour)
				case "fail":
					return workqueue.Permanent(errors.New("{x,y}"))
				case "long":
					receive(t, extended, "two renewals")
				}
				return nil
			})
			var rows []workqueue.NewRow
			for _, topic := range []string{"ack", "tx", "retry", "snooze", "fail", "long"} {
				rows = append(rows, workqueue.NewRow{Headers: map[string]string{"from": "me"},
					Values: []any{topic, "payload of " + topic}})
			}
			ids := r.insertRows(rows...)
			r.awaitStatus(workqueue.Done, ids[0], ids[1])
			r.awaitStatus(workqueue.Failed, ids[4])
			r.eventually("a retry", func() bool { return r.row(ids[2]).Error == "a 'quoted' \\ error with ünïcode" })
			r.eventually("a snooze", func() bool { return r.row(ids[3]).DueIn > time.Minute })
			before := r.Events.count(operation("extend"))
			r.eventually("two renewals", func() bool { return r.Events.count(operation("extend")) >= before+2 })
			close(extended)
			r.awaitStatus(workqueue.Done, ids[5])
			if n := ask[int](r, "SELECT count(*)::int FROM ledger"); n != 1 {
				t.Errorf("%d rows in the ledger, want 1", n)
			}
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			refused := func(e workqueue.Event) bool { // not because of the mode: the machine is overloaded
				return e.Err != nil && !errors.Is(e.Err, context.DeadlineExceeded)
			}
			if n := r.Events.count(refused); n > 0 {
				t.Errorf("%d operations failed:\n%s", n, r.Logs.tail())
			}
		})
	}
}
