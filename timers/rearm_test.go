package timers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// firing claims the timer k, as a worker does.
func (f *fixture) firing() (id, token uuid.UUID) {
	f.Helper()
	token = workqueue.NewOwnerToken()
	rows, err := f.timers.Table().On(f.Pool).Claim(f.Context(), token, 30*time.Second, 1)
	if err != nil || len(rows) != 1 {
		f.Fatalf("claimed %v, %v", rows, err)
	}
	return rows[0].ID, token
}

// settles are all the operations of the core that end a firing.
var settles = map[string]func(f *fixture, id, token uuid.UUID) error{
	"ack": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Ack(f.Context(), token, []uuid.UUID{id})
		return err
	},
	"abandon": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Abandon(f.Context(), token, []uuid.UUID{id}, time.Minute, "it failed")
		return err
	},
	"retry": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Retry(f.Context(), token, []uuid.UUID{id}, "it failed")
		return err
	},
	"fail": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Fail(f.Context(), token, []uuid.UUID{id}, "it failed")
		return err
	},
	"snooze": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Snooze(f.Context(), token, []uuid.UUID{id}, time.Minute)
		return err
	},
	"release": func(f *fixture, id, token uuid.UUID) error {
		_, err := f.timers.Table().On(f.Pool).Release(f.Context(), token, []uuid.UUID{id})
		return err
	},
	"reap": func(f *fixture, id, _ uuid.UUID) error {
		f.expire(id)
		r, err := f.timers.Table().On(f.Pool).ReapExpired(f.Context(), 10)
		if err == nil && r.Requeued != 1 {
			err = fmt.Errorf("reaped %+v", r)
		}
		return err
	},
	"SQL ack":     byFunction("ack($1, ARRAY[$2::uuid])"),
	"SQL abandon": byFunction("retry($1, ARRAY[$2::uuid], '60 s', 'it failed')"),
	"SQL fail":    byFunction("fail($1, ARRAY[$2::uuid], 'it failed')"),
	"SQL reap": func(f *fixture, id, _ uuid.UUID) error {
		f.expire(id)
		f.exec("SELECT * FROM " + f.table + "_reap_expired(10)")
		return nil
	},
}

func (f *fixture) expire(id uuid.UUID) {
	f.exec("UPDATE "+f.table+" SET locked_until = clock_timestamp() - interval '1 second' WHERE id = $1 AND status = 1",
		id)
}

func byFunction(call string) func(*fixture, uuid.UUID, uuid.UUID) error {
	return func(f *fixture, id, token uuid.UUID) error {
		var settled uuid.UUID
		return f.Pool.QueryRow(f.Context(), "SELECT id FROM "+f.table+"_"+call+" WHERE result NOT IN ('lost', 'gone')",
			token, id).Scan(&settled)
	}
}

func TestATimerThatIsSetWhileItFiresIsReadyAgainHoweverTheFiringEnds(t *testing.T) {
	t.Parallel()
	for name, settle := range settles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.set(timers.Timer{Key: "k", Topic: "old", Payload: []byte("old"), Headers: map[string]string{"h": "old"},
				MaxAttempts: 1})
			id, token := f.firing()
			old := f.get("k")

			f.set(timers.Timer{Key: "k", Topic: "lost", ScheduledAt: tomorrow})
			f.set(timers.Timer{Key: "k", Topic: "new", ScheduledAt: tomorrow.Add(time.Hour), Payload: []byte("new"),
				Headers: map[string]string{"h": "new"}, MaxAttempts: 4})
			during := f.get("k")
			switch {
			case during.Status != workqueue.InProgress, during.Attempts != 1, during.Generation != 3,
				during.RearmAt == nil:
				t.Errorf("the firing is disturbed: %+v", during)
			case during.Topic != "old", string(during.Payload) != "old", during.Headers["h"] != "old",
				!during.ScheduledAt.Equal(old.ScheduledAt), during.MaxAttempts != 1:
				t.Errorf("the firing is disturbed: %+v", during)
			}

			if err := settle(f, id, token); err != nil {
				t.Fatal(err)
			}
			got := f.get("k")
			switch {
			case got.ID != id, got.Status != workqueue.Ready, got.Attempts != 0, got.MaxAttempts != 4,
				got.Generation != 3:
				t.Errorf("got %+v", got)
			case got.Topic != "new", string(got.Payload) != "new", got.Headers["h"] != "new",
				!got.ScheduledAt.Equal(tomorrow.Add(time.Hour)), !got.DueAt.Equal(got.ScheduledAt):
				t.Errorf("got %+v", got)
			case got.RearmAt != nil, got.CompletedAt != nil, got.CancelledAt != nil:
				t.Errorf("got %+v", got)
			}
			_, err := f.timers.Table().On(f.Pool).Fail(t.Context(), token, []uuid.UUID{id}, "late")
			if after := f.get("k"); !errors.Is(err, workqueue.ErrLeaseLost) || after.Status != workqueue.Ready ||
				after.LastError != got.LastError {
				t.Errorf("the old claim settles what was set after it: %v, %+v", err, after)
			}
		})
	}
}

// A settle with a stale token changes nothing, so it does not apply the new setting either.
func TestAStaleSettleDoesNotRearm(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, _ := f.firing()
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	_, err := f.timers.Table().On(f.Pool).Ack(t.Context(), uuid.New(), []uuid.UUID{id})
	if got := f.get("k"); !errors.Is(err, workqueue.ErrLeaseLost) || got.Status != workqueue.InProgress ||
		got.RearmAt == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestASetThatIsRolledBackDoesNotRearm(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, token := f.firing()
	tx, end := apptx.Pgx(f, f.DB)
	if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow}); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() { settled <- settles["ack"](f, id, token) }()
	f.until("the settle waits for the transaction", f.somebodyWaits)
	end(false)
	if err := receive(t, settled); err != nil {
		t.Fatal(err)
	}
	if got := f.get("k"); got.Status != workqueue.Done || got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
}

// A settle that starts before the set has committed waits for it, and applies the new setting.
func TestASettleThatWaitsForTheSetSeesIt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ack", "fail", "SQL ack"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.set(timers.Timer{Key: "k", Topic: "t"})
			id, token := f.firing()
			tx, end := apptx.Pgx(f, f.DB)
			if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "new",
				ScheduledAt: tomorrow}); err != nil {
				t.Fatal(err)
			}
			settled := make(chan error, 1)
			go func() { settled <- settles[name](f, id, token) }()
			f.until("the settle waits for the transaction", f.somebodyWaits)
			end(true)
			if err := receive(t, settled); err != nil {
				t.Fatal(err)
			}
			if got := f.get("k"); got.Status != workqueue.Ready || got.Topic != "new" || !got.DueAt.Equal(tomorrow) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The other way round: the settle commits while the set waits, and the set finds a timer that has fired.
func TestASetThatWaitsForTheSettleSeesIt(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	id, token := f.firing()
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.timers.Table().In(workqueue.Pgx(tx)).Ack(t.Context(), token, []uuid.UUID{id}); err != nil {
		t.Fatal(err)
	}
	set := make(chan struct{})
	go func() {
		defer close(set)
		f.set(timers.Timer{Key: "k", Topic: "new", ScheduledAt: tomorrow})
	}()
	f.until("the set waits for the settle", f.somebodyWaits)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, set)
	if got := f.get("k"); got.Status != workqueue.Ready || got.Topic != "new" || got.RearmAt != nil ||
		got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
}

// outcomes are the results of a handler. With any of them, a timer that the handler sets again must fire again.
var outcomes = map[string]func() error{
	"nil":       func() error { return nil },
	"error":     func() error { return errors.New("it failed") },
	"permanent": func() error { return workqueue.Permanent(errors.New("it failed")) },
	"snooze":    func() error { return workqueue.Snooze(time.Hour) },
	"cancelled": func() error { return workqueue.Cancelled("no longer") },
	"panic":     func() error { panic("out of cheese") },
}

func TestAHandlerMaySetItsOwnTimerAgain(t *testing.T) {
	t.Parallel()
	for name, result := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			fired := make(chan *timers.Delivery, 10)
			f.worker(timersOnly(), func(w *timers.Worker) {
				w.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
					fired <- d
					if string(d.Payload) == "second" {
						return nil
					}
					f.set(timers.Timer{Key: d.Key, Topic: "t", Payload: []byte("second"), Delay: 10 * time.Millisecond})
					return result()
				})
			})
			f.set(timers.Timer{Key: "k", Topic: "t", Payload: []byte("first")})
			first, second := receive(t, fired), receive(t, fired)
			if string(first.Payload) != "first" || first.Generation != 1 || first.Attempt != 1 {
				t.Errorf("first: %+v", first)
			}
			if string(second.Payload) != "second" || second.Generation != 2 || second.Attempt != 1 ||
				second.ID != first.ID || !second.ScheduledAt.After(first.ScheduledAt) {
				t.Errorf("second: %+v", second)
			}
			f.until("it is done", func() bool { return f.get("k").Status == workqueue.Done })
		})
	}
}

// The handler sets the timer in the same transaction that settles the firing.
func TestAHandlerMaySetItsOwnTimerInItsTransaction(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	fired := make(chan *timers.Delivery, 10)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
			fired <- d
			if d.Generation == 3 {
				return nil
			}
			return d.Tx(ctx, func(tx pgx.Tx) error {
				_, err := f.timers.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: d.Key, Topic: "t"})
				return err
			})
		})
	})
	f.set(timers.Timer{Key: "k", Topic: "t"})
	for want := 1; want <= 3; want++ {
		if d := receive(t, fired); d.Generation != want || d.Attempt != 1 {
			t.Errorf("got %+v, want generation %d", d, want)
		}
	}
}

// The handler is still running when its lease is reaped. The timer that was set meanwhile then fires concurrently, and
// the result of the old handler does not affect it.
func TestAFiringThatHasLostItsLeaseLeavesTheNextOneAlone(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	begun, goOn := make(chan int, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	stop := f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error {
			begun <- d.Generation
			if d.Generation == 1 {
				<-goOn
				return workqueue.Permanent(errors.New("too late"))
			}
			return nil
		})
	})
	t.Cleanup(release)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	receive(t, begun)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	f.until("its lease has ended and is reaped", func() bool { // repeated, because a renewal may come between the two
		f.expire(f.get("k").ID)
		r, err := f.timers.Table().On(f.Pool).ReapExpired(t.Context(), 10)
		return err == nil && r.Requeued == 1
	})
	if generation := receive(t, begun); generation != 2 {
		t.Errorf("generation %d fires", generation)
	}
	f.until("it has fired", func() bool { return f.get("k").Status == workqueue.Done })
	release()
	stop() // waits for the old handler and its settle
	if got := f.get("k"); got.Status != workqueue.Done || strings.Contains(got.LastError, "too late") {
		t.Errorf("got %+v", got)
	}
}
