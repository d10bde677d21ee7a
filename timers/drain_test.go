package timers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestDrainWritesWhatIsOwedAndFiresWhatIsDue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options timers.WorkerOptions
		fired   int
	}{{"with schedules", timers.WorkerOptions{}, 2}, {"without", timersOnly(), 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			fired := make(chan *timers.Delivery, 10)
			w, err := timers.NewWorker(f.Pool, f.timers, c.options)
			if err != nil {
				t.Fatal(err)
			}
			w.HandleAll(func(_ context.Context, d *timers.Delivery) error { fired <- d; return nil })
			f.put(timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "t"})
			f.missed("s", time.Hour)
			f.set(timers.Timer{Key: "now", Topic: "t"}, timers.Timer{Key: "later", Topic: "t", ScheduledAt: tomorrow})

			p, err := w.Drain()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := p.Process(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if len(fired) != c.fired {
				t.Errorf("%d timers have fired, want %d", len(fired), c.fired)
			}
			next, err := p.NextWakeAt(t.Context())
			if err != nil || next == nil || next.In <= 0 || next.At.After(tomorrow) {
				t.Errorf("next %+v, %v", next, err)
			}
		})
	}
}

func TestDrainInATransactionThatRollsBack(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.put(timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "t"})
	f.missed("s", time.Hour)
	fired := 0
	w, err := timers.NewWorker(f.Pool, f.timers, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleAll(func(ctx context.Context, d *timers.Delivery) error {
		fired++
		return d.Tx(ctx, func(pgx.Tx) error { return nil })
	})
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := f.timers.Set(t.Context(), workqueue.Pgx(tx), timers.Timer{Key: "k", Topic: "t",
		ScheduledAt: tomorrow.Add(-48 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	p, err := w.DrainIn(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Process(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i, err := f.timers.Get(t.Context(), workqueue.Pgx(tx), "k"); err != nil || i.Status != workqueue.Done ||
		fired != 2 {
		t.Errorf("got %+v, %v; %d fired", i, err, fired)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 0 || f.schedule("s").Fired != 0 {
		t.Errorf("%d timers are left", n)
	}
}

func TestDrainNeedsHandlers(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	w, err := timers.NewWorker(f.Pool, f.timers, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Drain(); err == nil {
		t.Error("want an error")
	}
	if _, err := w.DrainIn(nil); err == nil {
		t.Error("want an error")
	}
}

// If one part of a drain fails, the error names it, and the other part still does its work.
func TestDrainGoesOnPastAPartThatFails(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	w, err := timers.NewWorker(f.Pool, f.timers, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	f.set(timers.Timer{Key: "now", Topic: "t"})
	f.exec("ALTER TABLE " + f.Schema + ".timers_schedule RENAME TO away")
	d, err := w.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.Process(t.Context()); n != 1 || err == nil ||
		!strings.Contains(err.Error(), f.Schema+".timers_schedule: ") {
		t.Errorf("%d timers have fired, %v", n, err)
	}
}
