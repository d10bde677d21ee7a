package periodic_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestAPausedScheduleFiresNothingAndCatchesNothingUp(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		ctx := f.Context()
		f.put(hourly(schedule.Rule{Misfire: schedule.MisfireAll}), periodic.Schedule{Name: "witness",
			Expr: "@every 1h"})
		for range 2 {
			do(func(tx workqueue.Tx) error { return f.plan.Pause(ctx, tx, "s") })
		}
		if got := f.get("s"); !got.Paused || got.NextAt != nil {
			f.Errorf("got %+v", got)
		}
		f.scheduler()
		f.missed("s", 10*time.Hour+30*time.Minute) // makes it due as well, as a reaper may
		f.missed("witness", time.Hour)
		f.until("the other one has fired", func() bool { return len(f.runs("witness")) == 1 })
		f.until("the paused one is put back", func() bool {
			return ask[bool](f, "SELECT status = 0 AND due_at > now() + interval '300 days' FROM "+f.table+
				" WHERE name = 's'")
		})
		for range 2 {
			do(func(tx workqueue.Tx) error { return f.plan.Resume(ctx, tx, "s") })
		}
		got := f.get("s")
		if got.Paused || len(f.runs("s")) != 0 || got.Skipped != 0 {
			f.Errorf("got %+v and %d runs", got, len(f.runs("s")))
		}
		if in := got.NextAt.Sub(f.clock()); in <= 0 || in > 31*time.Minute {
			f.Errorf("goes on in %v, want the interval's phase, half an hour off", in)
		}
		f.missed("s", time.Hour)
		f.until("it fires again", func() bool { return len(f.runs("s")) == 1 })
	})
}

func TestPauseDropsWhatWaits(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{Overlap: schedule.OverlapBuffer}))
	stop := f.scheduler()
	for range 2 {
		f.missed("s", time.Hour+time.Minute)
		f.decided("s")
	}
	stop()
	f.do(func(tx workqueue.Tx) error { return f.plan.Pause(t.Context(), tx, "s") })
	if got := f.get("s"); got.BufferedAt != nil || got.Skipped != 1 {
		t.Errorf("got %+v", got)
	}
}

// The scheduler is about to write an occurrence when the schedule is deleted.
func TestDeleteDuringTheDecision(t *testing.T) {
	t.Parallel()
	f, inside, goOn := newHeldPlan(t)
	f.put(hourly(schedule.Rule{}), periodic.Schedule{Name: "other", Expr: "@every 1h"})
	f.duringTheDecision(inside, goOn, func() {
		f.do(func(tx workqueue.Tx) error { return f.plan.Delete(t.Context(), tx, "s") })
	})
	f.missed("other", time.Hour)
	f.until("the scheduler goes on", func() bool { return len(f.runs("other")) == 1 })
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 1 || len(f.runs("s")) != 1 {
		t.Errorf("%d schedules, %d runs", n, len(f.runs("s")))
	}
}

func TestADeletedScheduleIsGone(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		f.put(hourly(schedule.Rule{}))
		do(func(tx workqueue.Tx) error { return f.plan.Delete(f.Context(), tx, "s") })
		if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 0 {
			f.Errorf("%d rows", n)
		}
		f.put(hourly(schedule.Rule{})) // the name is free
	})
}

// newHeldPlan is a plan whose Insert stops in the scheduler's transaction at the first occurrence.
func newHeldPlan(t *testing.T) (f *fixture, inside, goOn chan struct{}) {
	inside, goOn = make(chan struct{}), make(chan struct{})
	var once sync.Once
	f = newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			once.Do(func() { close(inside); <-goOn })
			return insertRuns(ctx, tx, occurrences)
		}
	})
	return f, inside, goOn
}

// duringTheDecision runs a change while a scheduler is about to write an occurrence of the schedule s, so that the
// change waits.
func (f *fixture) duringTheDecision(inside, goOn chan struct{}, change func()) {
	f.Helper()
	f.missed("s", time.Hour)
	f.scheduler()
	<-inside
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		change()
	}()
	f.until("the change waits for the decision", f.somebodyWaits)
	close(goOn)
	<-changed
}

// A scheduler decides by changes that are made while it holds the claim.
func TestAChangeDuringTheDecision(t *testing.T) {
	t.Parallel()
	f, inside, goOn := newHeldPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.duringTheDecision(inside, goOn, func() {
		f.put(periodic.Schedule{Name: "s", Expr: "@every 3h", Template: []byte("new")})
	})
	got := f.get("s")
	if in := got.NextAt.Sub(f.clock()); len(f.runs("s")) != 1 || got.Expr != "@every 3h" || in < 2*time.Hour ||
		got.Status != workqueue.Ready {
		t.Errorf("got %+v, next in %v", got, in)
	}
	f.missed("s", 3*time.Hour+time.Minute)
	f.until("it fires by what was put", func() bool {
		return ask[int](f, "SELECT count(*) FROM runs WHERE template = 'new'") == 1
	})
}

// A deployment that pauses schedules each time it runs does not write the rows of those that are paused already.
func TestPausingAPausedScheduleWritesNothing(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	pause := func() (version string) {
		f.do(func(tx workqueue.Tx) error { return f.plan.Pause(t.Context(), tx, "s") })
		return ask[string](f, "SELECT ctid::text FROM "+f.table)
	}
	if first, second := pause(), pause(); first != second {
		t.Errorf("the row's version is %s, want %s", second, first)
	}
}

// A program puts the same schedules whenever it starts, which changes nothing. A schedule whose occurrence is being
// written at that moment continues after that occurrence, and does not fall back to the previous state.
func TestPuttingTheSameDuringTheDecision(t *testing.T) {
	t.Parallel()
	f, inside, goOn := newHeldPlan(t)
	f.put(hourly(schedule.Rule{}))
	var after periodic.Info
	f.duringTheDecision(inside, goOn, func() {
		f.do(func(tx workqueue.Tx) (err error) {
			if err := f.plan.Put(t.Context(), tx, hourly(schedule.Rule{})); err != nil {
				return err
			}
			after, err = f.plan.Get(t.Context(), tx, "s")
			return err
		})
	})
	if runs := f.runs("s"); len(runs) != 1 || after.NextAt == nil || !after.NextAt.After(runs[0]) {
		t.Errorf("goes on at %v after the runs %v", after.NextAt, runs)
	}
}
