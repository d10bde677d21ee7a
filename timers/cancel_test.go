package timers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestCancelOfWhatIsNotFiring(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.set(timers.Timer{Key: "a", Topic: "t", ScheduledAt: tomorrow}, timers.Timer{Key: "b", Topic: "t",
				ScheduledAt: tomorrow}, timers.Timer{Key: "done", Topic: "t"})
			id, token := f.firing()
			if err := settles["ack"](f, id, token); err != nil {
				t.Fatal(err)
			}
			tx, end := w.Begin(f, f.DB)
			got, err := f.timers.Cancel(t.Context(), tx, "b", "unknown", "done", "a", "a")
			if err != nil || fmt.Sprint(got) != "[a b]" {
				t.Errorf("cancelled %v, %v", got, err)
			}
			again, err := f.timers.Cancel(t.Context(), tx, "a", "b")
			if err != nil || len(again) != 0 {
				t.Errorf("again: %v, %v", again, err)
			}
			end(true)
			if i := f.get("a"); i.Status != workqueue.Failed || i.CancelledAt == nil ||
				i.LastError != "cancelled: by its key" {
				t.Errorf("got %+v", i)
			}
			if i := f.get("done"); i.Status != workqueue.Done {
				t.Errorf("got %+v", i)
			}
		})
	}
}

func TestCancelOfARolledBackTransactionCancelsNothing(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	tx, end := apptx.SQL(f, f.DB)
	if _, err := f.timers.Cancel(t.Context(), tx, "k"); err != nil {
		t.Fatal(err)
	}
	end(false)
	if got := f.get("k"); got.Status != workqueue.Ready {
		t.Errorf("got %+v", got)
	}
}

func TestCancelOfAFiringCancelsItsHandlersContext(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	begun, cause := make(chan struct{}), make(chan error, 1)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(ctx context.Context, _ *timers.Delivery) error {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		})
	})
	f.set(timers.Timer{Key: "k", Topic: "t"})
	receive(t, begun)
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	if got := f.cancel("k"); len(got) != 1 {
		t.Errorf("cancelled %v", got)
	}
	if got := f.get("k"); got.RearmAt != nil {
		t.Error("what was set during the firing is still there")
	}
	if err := receive(t, cause); !errors.Is(err, workqueue.ErrRowCancelled) {
		t.Errorf("the context was cancelled because of %v", err)
	}
	f.until("it has ended", func() bool { return f.get("k").Status == workqueue.Failed })
	if got := f.get("k"); got.CancelledAt == nil {
		t.Errorf("got %+v", got)
	}
}

// The application's last call takes effect, whether it was a Set or a Cancel.
func TestSetAndCancelDuringOneFiring(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"ack", "fail", "abandon", "SQL reap"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.set(timers.Timer{Key: "k", Topic: "t"})
			id, token := f.firing()
			f.cancel("k")
			f.set(timers.Timer{Key: "k", Topic: "new", ScheduledAt: tomorrow})
			if got := f.cancel("k"); len(got) != 1 { // the firing was cancelled before; this drops the new setting
				t.Errorf("cancelled %v", got)
			}
			if got := f.get("k"); got.RearmAt != nil || got.Status != workqueue.InProgress {
				t.Errorf("got %+v", got)
			}
			f.set(timers.Timer{Key: "k", Topic: "last", ScheduledAt: tomorrow})
			if err := settles[end](f, id, token); err != nil {
				t.Fatal(err)
			}
			if got := f.get("k"); got.Status != workqueue.Ready || got.Topic != "last" || got.CancelledAt != nil ||
				!got.DueAt.Equal(tomorrow) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The CLI and the dashboard cancel by id, with the core's own cancel.
func TestTheCoresCancelDropsWhatWasSetDuringTheFiring(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, token := f.firing()
	f.set(timers.Timer{Key: "k", Topic: "new", ScheduledAt: tomorrow})
	if _, err := f.timers.Table().On(f.Pool).Cancel(t.Context(), []uuid.UUID{id}, "by an operator"); err != nil {
		t.Fatal(err)
	}
	if err := settles["abandon"](f, id, token); err != nil {
		t.Fatal(err)
	}
	if got := f.get("k"); got.Status != workqueue.Failed || got.LastError != "cancelled: by an operator" {
		t.Errorf("got %+v", got)
	}
}

// A cancel ignores a timer that has ended, so it does not wait for a session that has locked the row, such as a purge.
func TestCancelOfWhatHasEndedWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "done", Topic: "t"})
	id, token := f.firing()
	if err := settles["ack"](f, id, token); err != nil {
		t.Fatal(err)
	}
	f.inTx(func(tx workqueue.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT 1 FROM "+f.table+" WHERE key = 'done' FOR UPDATE")
		f.inTx(func(tx workqueue.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '1s'"); err != nil {
				return err
			}
			cancelled, err := f.timers.Cancel(t.Context(), tx, "done")
			if len(cancelled) != 0 {
				t.Errorf("cancelled %v", cancelled)
			}
			return err
		})
		return err
	})
}

// A program that repeats its cancel during a long firing must not fill the table with versions of the row.
func TestCancelOfAFiringAgainWritesNothing(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	f.firing()
	f.cancel("k")
	version := func() string { return ask[string](f, "SELECT xmin || ' ' || ctid FROM "+f.table) }
	before := version()
	if got := f.cancel("k"); len(got) != 0 || version() != before {
		t.Errorf("cancelled %v; the row's version is %s, want %s", got, version(), before)
	}
}

// A cancel of a firing discards what was set before the cancel, and nothing that is set later.
func TestATimerThatIsSetTwiceAfterItsFiringWasCancelledFires(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, token := f.firing()
	f.cancel("k")
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow.Add(time.Hour)})
	if err := settles["abandon"](f, id, token); err != nil {
		t.Fatal(err)
	}
	if got := f.get("k"); got.Status != workqueue.Ready || !got.ScheduledAt.Equal(tomorrow.Add(time.Hour)) {
		t.Errorf("got %+v, want it to be Ready at what was set last", got)
	}
}

// An application's own SQL that requeues a firing and marks it as cancelled would lose what was set during the firing,
// so the table refuses it.
func TestPlainSQLCannotLoseWhatWasSetDuringAFiring(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	f.firing()
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	_, err := f.Pool.Exec(t.Context(), "UPDATE "+f.table+
		" SET status = 0, attempts = 0, locked_until = NULL, cancelled_at = now()")
	if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "23514" {
		t.Errorf("got %v, want a violated check", err)
	}
	if got := f.get("k"); got.RearmAt == nil || !got.RearmAt.Equal(tomorrow) {
		t.Errorf("got %+v", got)
	}
}

func TestACancelThatWaitsForTheSetDropsIt(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, token := f.firing()
	f.cancel("k") // so that the core's cancel has nothing left to do later
	tx, end := apptx.Pgx(f, f.DB)
	if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "new",
		ScheduledAt: tomorrow}); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan []string, 1)
	go func() { cancelled <- f.cancel("k") }()
	f.until("the cancel waits for the transaction", f.somebodyWaits)
	end(true)
	if got := receive(t, cancelled); len(got) != 1 {
		t.Errorf("cancelled %v", got)
	}
	if err := settles["abandon"](f, id, token); err != nil {
		t.Fatal(err)
	}
	if got := f.get("k"); got.Status != workqueue.Failed || got.CancelledAt == nil {
		t.Errorf("got %+v", got)
	}
}
