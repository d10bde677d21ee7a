package txworktest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

const day = 24 * time.Hour

// report is the args of a nightly job.
type report struct{}

func (report) Kind() string { return "report" }

// nightly is an application that makes a report every night at 02:00, as a job.
type nightly struct {
	*testing.T
	*txworktest.DB
	client    *jobs.Client
	schedules *jobs.Schedules
	worker    *jobs.Worker
	nights    []time.Time // the nominal times of the reports
	rule      schedule.Rule
}

func newNightly(t *testing.T, fail error) *nightly {
	t.Helper()
	n := &nightly{T: t, DB: txworktest.Schema(t, txworktest.Server(t))}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(_ context.Context, job *jobs.Job[report]) error {
		at, ok := job.Nominal()
		if !ok {
			t.Error("a report without a nominal time")
		}
		n.nights = append(n.nights, at)
		return fail
	}, jobs.KindOptions[report]{})
	var err error
	n.client, err = jobs.Open(jobs.Options{Schema: n.Schema, Registry: kinds,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	n.must(err)
	n.schedules = n.client.Schedules()
	n.worker, err = jobs.NewWorker(n.Pool, n.client, jobs.WorkerOptions{})
	n.must(err)
	n.change(func(tx workqueue.Tx) error { return n.put(tx, "0 2 * * *") })
	return n
}

func (n *nightly) put(tx workqueue.Tx, expr string) error {
	return n.schedules.Put(n.Context(), tx, jobs.Schedule{Name: "nightly", Expr: expr, Args: report{}, Rule: n.rule})
}

func (n *nightly) change(f func(tx workqueue.Tx) error) {
	n.Helper()
	n.must(pgx.BeginFunc(n.Context(), n.Pool, func(tx pgx.Tx) error { return f(workqueue.Pgx(tx)) }))
}

func (n *nightly) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// wantNights expects the reports of so many nights, each a day after the one before it, from first on.
func wantNights(t *testing.T, nights []time.Time, first time.Time, want int) {
	t.Helper()
	if len(nights) != want {
		t.Fatalf("%d occurrences, want %d: %v", len(nights), want, nights)
	}
	for i, at := range nights {
		if !at.Equal(first.Add(time.Duration(i) * day)) {
			t.Errorf("occurrence %d is that of %v, the first should be that of %v", i+1, at, first)
		}
	}
}

func (n *nightly) next(q txworktest.Querier) time.Time {
	n.Helper()
	rows := txworktest.RequireCount(n, q, n.schedules, 1)
	return rows[0].Values["next_at"].(time.Time)
}

func TestAdvanceOverSeveralNights(t *testing.T) {
	t.Parallel()
	for step, steps := range map[time.Duration]int{day: 3, 8 * time.Hour: 9} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			n := newNightly(t, nil)
			first := n.next(n.Pool)
			for range steps {
				n.Advance(t, n.Pool, step)
				txworktest.DrainAll(t, n.Pool, n.worker)
			}
			wantNights(t, n.nights, first, 3)
			txworktest.RequireCount(t, n.Pool, n.client, 3, txworktest.Kind("report"))
			if got := txworktest.RequireCount(t, n.Pool, n.schedules, 1)[0].Values["fired"]; got != int64(3) {
				t.Errorf("%v fired", got)
			}
		})
	}
}

func TestAdvanceOverSeveralNightsInATransaction(t *testing.T) {
	t.Parallel()
	n := newNightly(t, nil)
	tx := n.Begin(t)
	first := n.next(tx)
	for range 3 {
		n.Advance(t, tx, day)
		txworktest.Drain(t, tx, n.worker)
	}
	wantNights(t, n.nights, first, 3)
}

func TestAdvanceOfTimersOverSeveralNights(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	tm, err := timers.Open(timers.Options{Schema: db.Schema, Lead: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := tm.Schedules()
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		return s.Put(t.Context(), workqueue.Pgx(tx), timers.Schedule{Name: "nightly", Expr: "0 2 * * *",
			Topic: "report", Rule: schedule.Rule{Jitter: time.Hour}})
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := timers.NewWorker(db.Pool, tm, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nights []time.Time
	w.Handle("report", func(_ context.Context, d *timers.Delivery) error {
		nights = append(nights, d.ScheduledAt)
		return nil
	})
	first := txworktest.RequireCount(t, db.Pool, s, 1)[0].Values["next_at"].(time.Time)
	for range 3 {
		db.Advance(t, db.Pool, day)
		txworktest.DrainAll(t, db.Pool, w)
	}
	wantNights(t, nights, first, 3)
}

// A schedule that skips misfires fires if the test advances to its due time.
func TestAdvanceToTheDueTimeOfASchedule(t *testing.T) {
	t.Parallel()
	n := newNightly(t, nil)
	n.rule = schedule.Rule{Misfire: schedule.MisfireSkip}
	n.change(func(tx workqueue.Tx) error { return n.put(tx, "0 2 * * *") })
	first := n.next(n.Pool)
	for range 3 {
		row := txworktest.RequireEnqueued(t, n.Pool, n.schedules, txworktest.Column("name", "nightly"))
		n.Advance(t, n.Pool, max(time.Until(row.DueAt), 0)+time.Second)
		txworktest.DrainAll(t, n.Pool, n.worker)
	}
	wantNights(t, n.nights, first, 3)
}

// Each schedule is planned, changed, resumed and backfilled by its own clock.
func TestSchedulesAreChangedAtTheTimeThatTheyHaveReached(t *testing.T) {
	t.Parallel()
	n := newNightly(t, nil)
	n.Advance(t, n.Pool, 10*day)
	txworktest.DrainAll(t, n.Pool, n.worker)
	reached := time.Now().Add(10 * day)
	within := func(what string, at, from, to time.Time) {
		t.Helper()
		if at.Before(from.Add(-time.Minute)) || at.After(to.Add(time.Minute)) {
			t.Errorf("%s at %v, want it between %v and %v", what, at, from, to)
		}
	}

	n.change(func(tx workqueue.Tx) error { return n.put(tx, "@hourly") })
	within("after a change the next one", n.next(n.Pool), reached, reached.Add(time.Hour))
	due := txworktest.RequireCount(t, n.Pool, n.schedules, 1)[0].DueAt
	within("after a change it is due", due, time.Now(), time.Now().Add(time.Hour))

	n.change(func(tx workqueue.Tx) error { return n.schedules.Pause(t.Context(), tx, "nightly") })
	n.Advance(t, n.Pool, day)
	reached = reached.Add(day)
	n.change(func(tx workqueue.Tx) error { return n.schedules.Resume(t.Context(), tx, "nightly") })
	within("after a pause the next one", n.next(n.Pool), reached, reached.Add(time.Hour))

	n.nights = nil
	n.change(func(tx workqueue.Tx) error {
		o, err := n.schedules.Trigger(t.Context(), tx, "nightly")
		within("triggered", o.Nominal, reached, reached)
		within("triggered and due", o.DueAt, time.Now(), time.Now())
		return err
	})
	n.change(func(tx workqueue.Tx) error {
		written, err := n.schedules.Backfill(t.Context(), tx, "nightly", reached.Add(-150*time.Minute), reached)
		if written < 2 || written > 3 {
			t.Errorf("%d backfilled", written)
		}
		return err
	})
	txworktest.Drain(t, n.Pool, n.worker)
	if len(n.nights) < 3 || len(n.nights) > 4 {
		t.Errorf("%d ran, want what was triggered and backfilled: %v", len(n.nights), n.nights)
	}
}

// DrainAll goes through the retries of an occurrence, during which a frequent schedule would be due again and again.
func TestDrainAllDoesNotWaitForSchedules(t *testing.T) {
	t.Parallel()
	n := newNightly(t, errors.New("no"))
	// Half an hour away, so that time does not bring another occurrence while the test runs.
	hourly := fmt.Sprintf("%d * * * *", time.Now().Add(30*time.Minute).Minute())
	n.change(func(tx workqueue.Tx) error { return n.put(tx, hourly) })
	n.Advance(t, n.Pool, time.Hour)
	handled := txworktest.DrainAll(t, n.Pool, n.worker)
	if got := outcomes(handled); strings.Count(got, "failed") != 1 {
		t.Error(got)
	}
	txworktest.RequireCount(t, n.Pool, n.client, 1)
}

var _ txworktest.Domain = (*periodic.Plan)(nil)
