package timers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func (f *fixture) put(schedules ...timers.Schedule) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error { return f.timers.Schedules().Put(f.Context(), tx, schedules...) })
}

func (f *fixture) schedule(name string) (i timers.ScheduleInfo) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		i, err = f.timers.Schedules().Get(f.Context(), tx, name)
		return err
	})
	return i
}

// missed moves the next time of a schedule into the past, as if no worker had run for a while.
func (f *fixture) missed(name string, by time.Duration) {
	f.Helper()
	table := f.timers.Schedules().Table().Name()
	f.exec("UPDATE "+table+" SET next_at = next_at - $2 * interval '1 microsecond', due_at = now() WHERE name = $1",
		name, by.Microseconds())
	f.exec("SELECT pg_notify($1, '0')", table)
}

func TestAScheduleOfTimersIsWhatWasPut(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newTimers(t)
			want := timers.Schedule{
				Name: "nightly", Expr: "30 2 * * *", Zone: "Europe/Berlin", Topic: "report",
				Rule: schedule.Rule{Misfire: schedule.MisfireSkip, Overlap: schedule.OverlapSkip,
					Jitter: time.Minute},
				Payload: []byte{0, 0xff}, Headers: map[string]string{"h": "v"}, MaxAttempts: 3,
			}
			tx, end := w.Begin(f, f.DB)
			if err := f.timers.Schedules().Put(t.Context(), tx, want); err != nil {
				t.Fatal(err)
			}
			list, err := f.timers.Schedules().List(t.Context(), tx, periodic.Filter{})
			if err != nil || len(list) != 1 {
				t.Fatalf("listed %v, %v", list, err)
			}
			end(true)
			if got := f.schedule("nightly"); fmt.Sprint(got.Schedule) != fmt.Sprint(want) ||
				fmt.Sprint(list[0].Schedule) != fmt.Sprint(want) || got.NextAt == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestBadSchedulesAreRefused(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.inTx(func(tx workqueue.Tx) error {
		for name, c := range map[string]struct {
			schedule timers.Schedule
			want     string
		}{
			"no topic":     {timers.Schedule{Name: "s", Expr: "@daily"}, "topic has 0 bytes, it must have 1 to 255 bytes"},
			"never fires":  {timers.Schedule{Name: "s", Expr: "0 0 31 6 *", Topic: "t"}, "0 0 31 6 *"},
			"no such zone": {timers.Schedule{Name: "s", Expr: "@daily", Zone: "Atlantis", Topic: "t"}, "Atlantis"},
			"long name":    {timers.Schedule{Name: strings.Repeat("s", 201), Expr: "@daily", Topic: "t"}, "201 bytes"},
			"large payload": {timers.Schedule{Name: "s", Expr: "@daily", Topic: "t",
				Payload: make([]byte, timers.DefaultMaxPayload+1)}, "payload has"},
			"NUL in header": {timers.Schedule{Name: "s", Expr: "@daily", Topic: "t",
				Headers: map[string]string{"h": "\x00"}}, "NUL"},
			"attempts": {timers.Schedule{Name: "s", Expr: "@daily", Topic: "t", MaxAttempts: -1}, "max attempts"},
		} {
			err := f.timers.Schedules().Put(t.Context(), tx, c.schedule)
			if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
		return nil
	})
}

// A handler gets the data of the schedule, and how late the occurrence is by the database's clock.
func TestOccurrencesFireAsTimers(t *testing.T) {
	t.Parallel()
	for _, lead := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint("lead ", lead), func(t *testing.T) {
			t.Parallel()
			f := newTimers(t, func(o *timers.Options) { o.Lead = lead })
			fired := make(chan *timers.Delivery, 100)
			f.worker(timers.WorkerOptions{}, func(w *timers.Worker) {
				w.Handle("tick", func(_ context.Context, d *timers.Delivery) error { fired <- d; return nil })
			})
			f.put(timers.Schedule{Name: "s", Expr: "@every 1s", Topic: "tick", Payload: []byte("p"),
				Headers: map[string]string{"h": "v"}, MaxAttempts: 3})
			last := *f.schedule("s").NextAt
			last = last.Add(-time.Second)
			for range 4 {
				d := receive(t, fired)
				want := last.Add(time.Second)
				switch {
				case !d.ScheduledAt.Equal(want), d.Schedule != "s", d.Key != "schedule/s/"+
					want.UTC().Format(time.RFC3339):
					t.Errorf("got %+v, want the occurrence of %v", d, want)
				case string(d.Payload) != "p", d.Headers["h"] != "v", d.MaxAttempts != 3, d.Attempt != 1,
					d.Generation != 1:
					t.Errorf("got %+v", d)
				case d.Late > slack:
					t.Errorf("it is late by %v", d.Late)
				}
				t.Logf("late by %v", d.Late)
				last = d.ScheduledAt
			}
		})
	}
}

// With three workers that fire and schedule, every occurrence fires once.
func TestWorkersShareSchedules(t *testing.T) {
	t.Parallel()
	const schedules = 10
	f := newTimers(t)
	var mu sync.Mutex
	fired := map[string]int{}
	var stops []func()
	for range 3 {
		stops = append(stops, f.worker(timers.WorkerOptions{}, func(w *timers.Worker) {
			w.HandleAll(func(_ context.Context, d *timers.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				fired[d.Key]++
				return nil
			})
		}))
	}
	for i := range schedules {
		f.put(timers.Schedule{Name: fmt.Sprint(i), Expr: "@every 1s", Topic: "t",
			Rule: schedule.Rule{Misfire: schedule.MisfireAll}})
	}
	f.until("each has fired three times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(fired) >= 3*schedules
	})
	for _, stop := range stops {
		stop()
	}
	for key, n := range fired {
		if n != 1 {
			t.Errorf("%s fired %d times", key, n)
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2"); n != len(fired) {
		t.Errorf("%d timers are done, %d have fired", n, len(fired))
	}
}

func TestAWorkerMayLeaveSchedulesToOthers(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	fired := make(chan *timers.Delivery, 10)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error { fired <- d; return nil })
	})
	f.put(timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "t"})
	f.missed("s", time.Hour)
	f.set(timers.Timer{Key: "k", Topic: "t"})
	if d := receive(t, fired); d.Key != "k" {
		t.Errorf("fired %s", d.Key)
	}
	if got := f.schedule("s"); got.Fired != 0 {
		t.Errorf("got %+v", got)
	}
}

// An occurrence counts as running until its timer has ended. This includes its retries, and the time until it is due.
func TestOccurrencesThatMustNotOverlap(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	begun, goOn := make(chan string, 10), make(chan struct{}, 10)
	f.worker(timers.WorkerOptions{}, func(w *timers.Worker) {
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error {
			begun <- d.Key
			<-goOn
			if d.Attempt == 1 {
				return workqueue.RetryAfter(10*time.Millisecond, errors.New("again"))
			}
			return nil
		})
	})
	f.put(timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "t",
		Rule: schedule.Rule{Overlap: schedule.OverlapBuffer}})
	f.missed("s", time.Hour)
	first := receive(t, begun)
	f.missed("s", time.Hour+time.Minute)
	f.until("the second waits", func() bool { return f.schedule("s").BufferedAt != nil })
	goOn <- struct{}{}
	if again := receive(t, begun); again != first {
		t.Errorf("%s began while %s was to be tried again", again, first)
	}
	goOn <- struct{}{}
	if second := receive(t, begun); second == first {
		t.Errorf("%s began once more", second)
	}
	close(goOn)
	f.until("both are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == 2
	})
}

func TestChangesOfAScheduleOfTimers(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	s := f.timers.Schedules()
	f.put(timers.Schedule{Name: "s", Expr: "0 3 * * *", Topic: "t"})
	f.inTx(func(tx workqueue.Tx) error {
		if err := s.Pause(t.Context(), tx, "s"); err != nil {
			return err
		}
		if i, err := s.Get(t.Context(), tx, "s"); err != nil || !i.Paused {
			t.Errorf("got %+v, %v", i, err)
		}
		o, err := s.Trigger(t.Context(), tx, "s")
		if err != nil {
			return err
		}
		if i, err := f.timers.Get(t.Context(), tx, o.Key); err != nil || i.Topic != "t" || i.Schedule != "s" {
			t.Errorf("triggered %+v, %v", i, err)
		}
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, want := range []int{7, 0} {
			planned, err := s.PreviewBackfill(t.Context(), tx, "s", from, from.AddDate(0, 0, 7))
			exist := slices.DeleteFunc(slices.Clone(planned), func(o periodic.Occurrence) bool { return !o.Duplicate })
			if err != nil || len(planned) != 7 || len(exist) != 7-want {
				t.Errorf("previewed %+v, %v", planned, err)
			}
			if n, err := s.Backfill(t.Context(), tx, "s", from, from.AddDate(0, 0, 7)); err != nil || n != want {
				t.Errorf("backfilled %d, %v; want %d", n, err, want)
			}
		}
		list, err := f.timers.List(t.Context(), tx, timers.Filter{Prefix: "schedule/s/2024"})
		if err != nil || len(list) != 7 || !list[0].ScheduledAt.Equal(from.Add(3*time.Hour)) ||
			list[0].DueAt.Before(from.AddDate(1, 0, 0)) {
			t.Errorf("backfilled %+v, %v", list, err)
		}
		if cancelled, err := f.timers.Cancel(t.Context(), tx, list[0].Key, o.Key); err != nil || len(cancelled) != 2 {
			t.Errorf("cancelled %v, %v", cancelled, err)
		}
		if err := s.Resume(t.Context(), tx, "s"); err != nil {
			return err
		}
		return s.Delete(t.Context(), tx, "s")
	})
	f.inTx(func(tx workqueue.Tx) error {
		if _, err := s.Get(t.Context(), tx, "s"); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// After a restore to an earlier moment a schedule's occurrences are written again. Handlers have used their ids and
// generations as idempotency keys.
func TestAnOccurrenceThatIsWrittenAgainHasTheSameID(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.put(timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "t"}, timers.Schedule{Name: "other", Expr: "@every 1h",
		Topic: "t"})
	now := f.clock()
	backfill := func() (ids string) {
		f.inTx(func(tx workqueue.Tx) error {
			for _, name := range []string{"s", "other"} {
				if n, err := f.timers.Schedules().Backfill(t.Context(), tx, name, now.Add(-10*time.Hour), now); n < 9 {
					t.Errorf("%d occurrences were written, %v", n, err)
				}
			}
			return nil
		})
		if n := ask[int](f, "SELECT count(DISTINCT id) FROM "+f.table); n < 18 {
			t.Errorf("%d occurrences have different ids", n)
		}
		return ask[string](f, "SELECT string_agg(concat_ws(' ', key, id, generation), E'\n' ORDER BY key) FROM "+f.table)
	}
	first := backfill()
	f.exec("DELETE FROM " + f.table)
	if again := backfill(); again != first {
		t.Errorf("got\n%s\nwant\n%s", again, first)
	}
}
