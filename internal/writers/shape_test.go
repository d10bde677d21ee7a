package writers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// In every domain there is a call for one item and one for many, with the same item and result.
func TestEnqueueingHasOneShape(t *testing.T) {
	f := newFixture(t)
	box, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	in, err := inbox.Open(inbox.Options{Schema: f.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: quiet})
	f.ok(err)
	clock, err := timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)

	enqueued := func(e workqueue.Enqueued) uuid.UUID { return e.ID }
	shaped(f, "outbox", box.Enqueue, box.EnqueueMany, enqueued, outbox.Message{Topic: "t"}, outbox.Message{Topic: "u"})
	shaped(f, "inbox", in.Receive, in.ReceiveMany, func(r inbox.Result) uuid.UUID { return r.ID },
		inbox.Message{Consumer: "c", Source: "s", MessageID: "1"},
		inbox.Message{Consumer: "c", Source: "s", MessageID: "2"})
	shaped(f, "timers", clock.Set, clock.SetMany, enqueued, timers.Timer{Key: "1", Topic: "t"},
		timers.Timer{Key: "2", Topic: "t"})
	shaped(f, "jobs", client.Enqueue, client.EnqueueMany, enqueued, jobs.Insert{Args: thumbnail{"cat.png"}},
		jobs.Insert{Args: thumbnail{"dog.png"}})
}

// shaped writes the first item alone, and the second beside the zero value, which is refused, and by itself.
func shaped[I any, R comparable](f *fixture, table string, one func(context.Context, workqueue.Tx, I) (R, error),
	many func(context.Context, workqueue.Tx, ...I) ([]R, error), id func(R) uuid.UUID, first, second I) {
	f.Helper()
	var none, alone R
	var bad I
	f.ok(workqueue.InTx(f.Context(), f.db.Pool, func(tx workqueue.Tx) error {
		results, err := many(f.Context(), tx)
		if len(results) != 0 || err != nil {
			f.Errorf("%s: without items: %v, %v", table, results, err)
		}
		result, err := one(f.Context(), tx, bad)
		f.refused(table, err, 0, 1)
		if result != none {
			f.Errorf("%s: a refused item has the result %v", table, result)
		}
		results, err = many(f.Context(), tx, second, bad)
		f.refused(table, err, 1, 2)
		if results != nil {
			f.Errorf("%s: refused items have the results %v", table, results)
		}
		if alone, err = one(f.Context(), tx, first); err != nil {
			return err
		}
		results, err = many(f.Context(), tx, second)
		if err == nil && (len(results) != 1 || id(results[0]) == id(alone)) {
			f.Errorf("%s: the results are %v and %v", table, alone, results)
		}
		return err
	}))
	var rows int
	var found bool
	f.ok(f.db.Pool.QueryRow(f.Context(), f.in("SELECT count(*), bool_or(id = $1) FROM txwork.")+table,
		id(alone)).Scan(&rows, &found))
	if rows != 2 || !found {
		f.Errorf("%s has %d rows, want 2, with that of the first call", table, rows)
	}
}

// refused requires an error that names the item, however many there are.
func (f *fixture) refused(table string, err error, index, count int) {
	f.Helper()
	var item *workqueue.ItemError
	if !errors.As(err, &item) || item.Index != index || item.Count != count {
		f.Errorf("%s: the error is %v (%+v), want that of item %d of %d", table, err, item, index+1, count)
	}
}
