package timers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// The handler compares its time with the database's clock.
func TestNoTimerIsEarlyByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	const n = 300
	f := newTimers(t)
	var mu sync.Mutex
	early, fired, wrong := 0, 0, 0
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
			now := f.clock()
			mu.Lock()
			defer mu.Unlock()
			fired++
			if now.Before(d.ScheduledAt) {
				early++
			}
			if d.Late < 0 || d.ScheduledAt.Add(d.Late).After(now.Add(time.Second)) {
				wrong++
			}
			return nil
		})
	})
	many := make([]timers.Timer, n)
	for i := range many {
		many[i] = timers.Timer{Key: fmt.Sprint(i), Topic: "t", Delay: time.Duration(i) * 5 * time.Millisecond}
	}
	f.set(many...)
	for i := 0; i < n; i += 3 { // moved while others fire
		f.set(timers.Timer{Key: fmt.Sprint(i), Topic: "t", Delay: 1500 * time.Millisecond})
	}
	f.until("all have fired", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") == n
	})
	mu.Lock()
	defer mu.Unlock()
	if early > 0 || wrong > 0 || fired < n {
		t.Errorf("of %d firings %d were early, %d had a wrong lateness", fired, early, wrong)
	}
}

func TestADeliveryIsWhatWasSet(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	fired := make(chan *timers.Delivery, 2)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.Handle("a", func(_ context.Context, d *timers.Delivery) error { fired <- d; return nil })
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error { t.Errorf("topic %q", d.Topic); return nil })
	})
	past := f.clock().Add(-time.Hour).UTC()
	f.set(timers.Timer{Key: "k", Topic: "a", ScheduledAt: past, Payload: []byte("p"),
		Headers: map[string]string{"h": "v"}, MaxAttempts: 7})
	d := receive(t, fired)
	switch {
	case d.Key != "k", d.Topic != "a", string(d.Payload) != "p", d.Headers["h"] != "v", !d.ScheduledAt.Equal(past),
		d.ID != f.get("k").ID:
		t.Errorf("got %+v", d)
	case d.Attempt != 1, d.MaxAttempts != 7, d.Generation != 1, d.Schedule != "", d.Late < time.Hour,
		d.Late > time.Hour+slack:
		t.Errorf("got %+v", d)
	}
}

// Retries change the due time, and never the nominal time.
func TestRetriesKeepTheNominalTime(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	fired := make(chan *timers.Delivery, 5)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error {
			fired <- d
			if d.Attempt < 3 {
				return workqueue.RetryAfter(20*time.Millisecond, errors.New("not yet"))
			}
			return nil
		})
	})
	f.set(timers.Timer{Key: "k", Topic: "t"})
	first := receive(t, fired)
	for attempt := 2; attempt <= 3; attempt++ {
		d := receive(t, fired)
		if d.Attempt != attempt || !d.ScheduledAt.Equal(first.ScheduledAt) || d.Generation != 1 ||
			!d.DueAt.After(first.DueAt) || d.Late < 20*time.Millisecond {
			t.Errorf("got %+v, first %+v", d, first)
		}
	}
}

func TestTxSettlesTheFiringWithTheHandlersWrites(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.exec("CREATE TABLE " + f.Schema + ".effects (key text)")
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
			return d.Tx(ctx, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", d.Key); err != nil {
					return err
				}
				if d.Key == "bad" {
					return errors.New("no")
				}
				return nil
			})
		})
	})
	f.set(timers.Timer{Key: "good", Topic: "t"}, timers.Timer{Key: "bad", Topic: "t"})
	f.until("both are settled", func() bool {
		return f.get("good").Status == workqueue.Done && f.get("bad").LastError == "no"
	})
	if got := ask[string](f, "SELECT string_agg(key, ',') FROM effects"); got != "good" {
		t.Errorf("effects of %s", got)
	}
}

func TestATopicWithoutAHandlerIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.Handle("known", func(context.Context, *timers.Delivery) error { return nil })
	})
	f.set(timers.Timer{Key: "k", Topic: "unknown"})
	f.until("it was tried", func() bool { return f.get("k").Attempts == 1 && f.get("k").Status == workqueue.Ready })
	if got := f.get("k"); got.LastError != `no handler is registered for topic "unknown"` ||
		got.DueAt.Before(got.ScheduledAt.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
}

func TestADeliveryOfNoWorkerHasNoTx(t *testing.T) {
	t.Parallel()
	d := &timers.Delivery{Key: "k"}
	if err := d.Tx(t.Context(), func(pgx.Tx) error { return nil }); err == nil {
		t.Error("want an error")
	}
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	bare, err := timers.Open(timers.Options{Schema: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		pool    *pgxpool.Pool
		timers  *timers.Timers
		options timers.WorkerOptions
	}{
		"pool is nil":    {nil, f.timers, timers.WorkerOptions{}},
		"timers are nil": {f.Pool, nil, timers.WorkerOptions{}},
		"concurrency is -1": {f.Pool, f.timers,
			timers.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: -1}}},
	} {
		if w, err := timers.NewWorker(c.pool, c.timers, c.options); w != nil || !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", w, err, want)
		}
	}

	w, err := timers.NewWorker(f.Pool, bare, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Wake() // must do no harm before Run
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), ".timers has no handler") {
		t.Errorf("no handler: %v", err)
	}
	w.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no tables: %v", err)
	}
}

// Run returns an error if the worker of either table cannot start.
func TestRunEndsWhenOneOfTheTablesIsMissing(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"timers", "timers_schedule"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			f.exec("DROP TABLE " + f.Schema + "." + table + " CASCADE") // functions return its rows
			w, err := timers.NewWorker(f.Pool, f.timers, timers.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
			if err := w.Run(t.Context()); !errors.Is(err, workqueue.ErrSchemaVersion) {
				t.Errorf("Run says %v", err)
			}
		})
	}
}

func TestDDLComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	up, down, err := timers.DDL(f.Schema)
	if err != nil {
		t.Fatal(err)
	}
	f.exec(down)
	left := ask[int](f, `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)`, f.Schema)
	if left > 0 {
		t.Errorf("%d objects are left", left)
	}
	f.exec(up)
	if _, _, err := timers.DDL("Robert'); --"); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	public := ask[int](f,
		`SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace AND has_function_privilege('public', oid, 'EXECUTE')`, f.Schema)
	if public > 0 {
		t.Errorf("%d functions are for everybody", public)
	}
}

func TestTheTableRefusesWhatNoProgramMayWrite(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: tomorrow})
	for name, change := range map[string]string{
		"empty key":       "key = ''",
		"long key":        "key = repeat('k', 256)",
		"endless":         "fire_at = 'infinity'",
		"generation 0":    "generation = 0",
		"stranded re-arm": "rearm_at = now(), rearm_topic = '', rearm_payload = '', rearm_max_attempts = 1",
	} {
		if _, err := f.Pool.Exec(t.Context(), "UPDATE "+f.table+" SET "+change); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A timer has no destination that rests. If it cannot be reached, the timer keeps its attempts and its time, and fires
// after ten seconds at most.
func TestADestinationOfATimerIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.set(timers.Timer{Key: "k", Topic: "t", ScheduledAt: f.clock().Add(-time.Hour)})
	var away atomic.Bool
	away.Store(true)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(context.Context, *timers.Delivery) error {
			if away.Load() {
				return workqueue.Unavailable(errors.New("connection refused"))
			}
			return nil
		})
	})
	const waits = "status = 0 AND attempts = 0 AND fire_at < now() - interval '59 minutes' AND last_error LIKE '%refused%'"
	f.until("it waits", func() bool {
		return ask[bool](f, "SELECT "+waits+" AND due_at BETWEEN clock_timestamp() + interval '1 s' AND "+
			"clock_timestamp() + interval '10 s' FROM "+f.table)
	})
	away.Store(false)
	f.exec("UPDATE " + f.table + " SET due_at = now()")
	f.until("it has fired", func() bool { return ask[bool](f, "SELECT status = 2 AND attempts = 1 FROM "+f.table) })
}
