package timers_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

var tomorrow = time.Now().Add(24 * time.Hour).Truncate(time.Microsecond).UTC()

func TestATimerIsWhatWasSet(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			tx, end := w.Begin(f, f.DB)
			set, err := f.timers.SetMany(t.Context(), tx,
				timers.Timer{Key: "b", Topic: "t", ScheduledAt: tomorrow, Payload: []byte{0, '"', '\\', 0xff},
					Headers: map[string]string{"h": `"v"`}, MaxAttempts: 3},
				timers.Timer{Key: "a ö", Topic: "t", Delay: time.Hour},
			)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.timers.Get(t.Context(), tx, "b")
			if err != nil {
				t.Fatal(err)
			}
			end(true)
			switch {
			case got.ID != set[0].ID, set[0].Duplicate, got.Key != "b", got.Topic != "t",
				!got.ScheduledAt.Equal(tomorrow), !got.DueAt.Equal(tomorrow):
				t.Errorf("got %+v", got)
			case !bytes.Equal(got.Payload, []byte{0, '"', '\\', 0xff}), !maps.Equal(sdktest.Untraced(got.Headers),
				map[string]string{"h": `"v"`}):
				t.Errorf("got payload %q and headers %v", got.Payload, got.Headers)
			case got.Status != workqueue.Ready, got.Attempts != 0, got.MaxAttempts != 3, got.Generation != 1,
				got.Schedule != "", got.RearmAt != nil:
				t.Errorf("got %+v", got)
			}
			after := f.get("a ö")
			if d := after.ScheduledAt.Sub(after.CreatedAt); after.ID != set[1].ID || d < time.Hour ||
				d > time.Hour+slack {
				t.Errorf("fires %v after it was set, want an hour", d)
			}
		})
	}
}

func TestATimerOfARolledBackTransactionIsNotSet(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.set(timers.Timer{Key: "old", Topic: "t", ScheduledAt: tomorrow})
			tx, end := w.Begin(f, f.DB)
			for _, key := range []string{"old", "new"} {
				if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: key, Topic: "changed",
					ScheduledAt: tomorrow}); err != nil {
					t.Fatal(err)
				}
			}
			end(false)
			if got := f.get("old"); got.Topic != "t" || got.Generation != 1 {
				t.Errorf("got %+v", got)
			}
			f.inTx(func(tx workqueue.Tx) error {
				if _, err := f.timers.Get(t.Context(), tx, "new"); !errors.Is(err, workqueue.ErrNotFound) {
					t.Errorf("got %v, want ErrNotFound", err)
				}
				return nil
			})
		})
	}
}

// states bring a timer into each state that Set can find, except firing.
var states = map[string]func(f *fixture, id uuid.UUID){
	"waiting": func(*fixture, uuid.UUID) {},
	"retrying": func(f *fixture, id uuid.UUID) {
		f.exec("UPDATE "+f.table+
			" SET attempts = 4, last_error = 'x', due_at = now() + interval '2 hours' WHERE id = $1", id)
	},
	"fired": func(f *fixture, id uuid.UUID) {
		f.exec("UPDATE "+f.table+" SET status = 2, attempts = 1, completed_at = now(), owner_token = "+
			"gen_random_uuid() WHERE id = $1", id)
	},
	"failed": func(f *fixture, id uuid.UUID) {
		f.exec("UPDATE "+f.table+" SET status = 3, attempts = 10, completed_at = now(), failed_at = now(), "+
			"last_error = 'x', owner_token = gen_random_uuid() WHERE id = $1", id)
	},
	"cancelled": func(f *fixture, _ uuid.UUID) { f.cancel("k") },
}

func TestSettingAgainStartsFromTheBeginning(t *testing.T) {
	t.Parallel()
	for name, bring := range states {
		for _, w := range apptx.Libraries() {
			t.Run(name+"/"+w.Name, func(t *testing.T) {
				t.Parallel()
				f := newTimers(t)
				f.set(timers.Timer{Key: "k", Topic: "old", ScheduledAt: tomorrow, Payload: []byte("old"),
					Headers: map[string]string{"h": "old"}})
				before := f.get("k")
				bring(f, before.ID)

				tx, end := w.Begin(f, f.DB)
				set, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "new",
					ScheduledAt: tomorrow.Add(time.Hour), Payload: []byte("new"), MaxAttempts: 2})
				if err != nil {
					t.Fatal(err)
				}
				end(true)

				got := f.get("k")
				switch {
				case set != (workqueue.Enqueued{ID: before.ID, Duplicate: true, Replaced: true}) ||
					got.ID != before.ID:
					t.Errorf("it is another row: %v, %v, was %v", set, got.ID, before.ID)
				case got.Status != workqueue.Ready, got.Attempts != 0, got.MaxAttempts != 2, got.Generation != 2,
					got.LastError != "", got.CompletedAt != nil, got.CancelledAt != nil:
					t.Errorf("got %+v", got)
				case got.Topic != "new", string(got.Payload) != "new", len(got.Headers) != 0,
					!got.ScheduledAt.Equal(tomorrow.Add(time.Hour)), !got.DueAt.Equal(got.ScheduledAt):
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

func TestAPastTimeMeansNowAndStaysTheNominalTime(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	past := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for range 2 { // set, and set again
		before := f.clock()
		f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: past})
		if got := f.get("k"); !got.ScheduledAt.Equal(past) || got.DueAt.Before(before) || got.DueAt.After(f.clock()) {
			t.Errorf("nominal %v, due %v", got.ScheduledAt, got.DueAt)
		}
	}
}

func TestATimerWithoutATimeFiresNow(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	before := f.clock()
	f.set(timers.Timer{Key: "k", Topic: "t"})
	if got := f.get("k"); got.ScheduledAt.Before(before) || got.ScheduledAt.After(f.clock()) {
		t.Errorf("fires at %v", got.ScheduledAt)
	}
}

func TestTheLastOfOneKeyHolds(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	for i := range 2 {
		f.inTx(func(tx workqueue.Tx) error {
			set, err := f.timers.SetMany(t.Context(), tx,
				timers.Timer{Key: "k", Topic: "first", ScheduledAt: tomorrow},
				timers.Timer{Key: "other", Topic: "t", ScheduledAt: tomorrow},
				timers.Timer{Key: "k", Topic: "last", ScheduledAt: tomorrow})
			if err == nil && (set[0] != set[2] || set[0].ID == set[1].ID || set[0].ID == uuid.Nil ||
				set[0].Replaced != (i > 0)) {
				t.Errorf("got %v", set)
			}
			return err
		})
		if got := f.get("k"); got.Topic != "last" || got.Generation != i+1 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestManyTimersInOneCall(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	many := make([]timers.Timer, workqueue.MaxBatch+10)
	for i := range many {
		many[i] = timers.Timer{Key: uuid.NewString(), Topic: "t", ScheduledAt: tomorrow}
	}
	f.set(many[:100]...)
	f.set(many...)
	if n := ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE generation = 1"); n != len(many)-100 {
		t.Errorf("%d new timers", n)
	}
	if n := ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE generation = 2"); n != 100 {
		t.Errorf("%d timers set again", n)
	}
}

// Neither Set finds a timer at first. The second one waits, and then sets the timer that the first has created.
func TestConcurrentSetsOfANewKey(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	tx, end := apptx.Pgx(f, f.DB)
	if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "first",
		ScheduledAt: tomorrow}); err != nil {
		t.Fatal(err)
	}
	second := make(chan struct{})
	go func() {
		defer close(second)
		f.set(timers.Timer{Key: "k", Topic: "second", ScheduledAt: tomorrow})
	}()
	f.until("the second waits for the first", f.somebodyWaits)
	end(true)
	receive(t, second)
	if got := f.get("k"); got.Topic != "second" || got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
}

// Calls with the same keys lock the rows in the order of the keys, whatever their order in the table. Otherwise they
// could deadlock.
func TestTimersAreLockedInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	for _, key := range []string{"c", "b", "a"} {
		f.set(timers.Timer{Key: key, Topic: "t", ScheduledAt: tomorrow})
	}
	f.exec("ANALYZE " + f.table)
	tx, end := apptx.Pgx(f, f.DB)
	if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "b", Topic: "t", ScheduledAt: tomorrow}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.set(timers.Timer{Key: "c", Topic: "t"}, timers.Timer{Key: "b", Topic: "t"},
			timers.Timer{Key: "a", Topic: "t"})
	}()
	f.until("the second call waits for the first", f.somebodyWaits)
	var free []string
	err := f.Pool.QueryRow(t.Context(), "SELECT array_agg(key) FROM (SELECT key FROM "+f.table+
		" FOR UPDATE SKIP LOCKED) AS t").Scan(&free)
	if err != nil || len(free) != 1 || free[0] != "c" {
		t.Errorf("free is %v, error %v; want the one behind what it waits for", free, err)
	}
	end(true)
	<-done
}

// The largest generation that the column holds is followed by 1, so that a call does not fail because of one timer's
// count.
func TestAGenerationAtItsMaximumBeginsAgain(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t"}, timers.Timer{Key: "other", Topic: "t"})
	f.exec("UPDATE " + f.table + " SET generation = 2147483647 WHERE key = 'k'")
	f.set(timers.Timer{Key: "k", Topic: "t"}, timers.Timer{Key: "other", Topic: "t"})
	if k, other := f.get("k"), f.get("other"); k.Generation != 1 || other.Generation != 2 {
		t.Errorf("generations %d and %d, want 1 and 2", k.Generation, other.Generation)
	}
}
