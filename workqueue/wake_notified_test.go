package workqueue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// crowdOf starts a worker for each of the given lanes over one runtime. None of them polls.
func (r *rig) crowdOf(n int) (topics []string) {
	r.Helper()
	runtime := r.runtimeOn(r.Pool)
	for i := range n {
		topic := fmt.Sprintf("queue %d", i)
		topics = append(topics, topic)
		w := r.serving(lanes(topic)).start(workqueue.WorkerOptions{Runtime: runtime, PollInterval: time.Hour}, ackAll)
		r.eventually("a worker", func() bool { return w.Ready() == nil })
	}
	r.awaitListener()
	// After a listener's session has started, all workers look once.
	r.awaitStatus(workqueue.Done, r.insert(topics...)...)
	return topics
}

// A notification makes only the worker claim that serves the row's lane, now or when the row is due.
func TestANotificationWakesWhomItConcerns(t *testing.T) {
	t.Parallel()
	r := laneRig(t)
	topics := r.crowdOf(10)
	settled := func() (claims int) {
		for {
			before := r.Events.count(operation("claim"))
			pgtest.Pass(500 * time.Millisecond)
			if claims = r.Events.count(operation("claim")); claims == before {
				return claims
			}
		}
	}
	before := settled()
	const rows = 20
	for i := range rows {
		r.awaitStatus(workqueue.Done, r.insert(topics[i%3])...)
	}
	r.awaitStatus(workqueue.Done, r.insertRows(workqueue.NewRow{DueAt: time.Now().Add(time.Second),
		Values: []any{topics[5], ""}})...)
	if claims := settled() - before; claims < rows || claims > 4*rows {
		t.Errorf("%d claims for %d rows, want one or two for each", claims, rows)
	}
}

// While no look is possible because the table is locked, all workers are woken all the same, and no row is forgotten.
func TestALookThatFailsWakesEverybody(t *testing.T) {
	t.Parallel()
	r := laneRig(t)
	topics := r.crowdOf(5)
	for range 3 {
		tx, err := r.Eyes.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(t.Context(), "LOCK TABLE notes IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		ids, err := r.insertIn(tx, workqueue.NewRow{Values: []any{topics[4], ""}},
			workqueue.NewRow{Values: []any{topics[0], ""}})
		if err != nil {
			t.Fatal(err)
		}
		locker, err := r.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Rollback(context.Background())
		locked := make(chan error, 1)
		go func() { _, err := locker.Exec(t.Context(), "LOCK TABLE notes"); locked <- err }()
		r.eventually("a lock that waits", func() bool {
			return ask[bool](r, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'notes'::regclass AND mode = "+
				"'AccessExclusiveLock' AND NOT granted)")
		})
		if err := tx.Commit(t.Context()); err != nil { // the rows are announced while the table is locked
			t.Fatal(err)
		}
		if err := receive(t, locked, "the lock"); err != nil {
			t.Fatal(err)
		}
		r.eventually("a statement that waits for it", func() bool {
			return ask[bool](r, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'notes'::regclass AND NOT "+
				"granted)")
		})
		if err := locker.Rollback(t.Context()); err != nil && err != pgx.ErrTxClosed {
			t.Fatal(err)
		}
		r.awaitStatus(workqueue.Done, ids...)
	}
}
