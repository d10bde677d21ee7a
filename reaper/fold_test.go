package reaper_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// If another session is folding, a reaper tries only once, leaves the fold to that session, and does the rest of its
// round.
func TestReapersLeaveAFoldToWhoIsAtIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	up, _, err := outbox.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	db.exec(up)
	var folds atomic.Int32
	box, err := outbox.Open(outbox.Options{Schema: db.Schema, Ordering: outbox.PerKey, Telemetry: workqueue.Telemetry{
		Logger: quiet,
		Observer: func(_ context.Context, e workqueue.Event) {
			if e.Operation == "fold" {
				folds.Add(1)
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t", Key: "k"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	holder, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.Background())
	if _, err := holder.Exec(t.Context(), "SELECT "+db.Schema+".outbox_key_fold(1000)"); err != nil {
		t.Fatal(err)
	}
	report, err := reaper.RunOnce(t.Context(), db.Pool, box.Tables(), db.options())
	if err != nil || !report.Leader() {
		t.Errorf("%+v, %v", report, err)
	}
	if n := folds.Load(); n != 1 {
		t.Errorf("the reaper has asked %d times whether it may fold, want once", n)
	}
}
