package periodic_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// abandoned claims the due schedule like a scheduler that dies afterwards. The lease expires soon.
func (f *fixture) abandoned() {
	f.Helper()
	rows, err := f.plan.Table().On(f.Pool).Claim(f.Context(), workqueue.NewOwnerToken(), workqueue.MinLease, 1)
	if err != nil || len(rows) != 1 {
		f.Fatalf("claimed %d schedules, error %v", len(rows), err)
	}
}

// reaped waits until the reaper has taken the claim back.
func (f *fixture) reaped() {
	f.Helper()
	f.until("the claim of the dead scheduler is reaped", func() bool {
		r, err := f.plan.Table().On(f.Pool).ReapExpired(f.Context(), 10)
		if err != nil {
			f.Fatal(err)
		}
		return r.Requeued == 1
	})
}

// A scheduler dies with a claim, and the schedule is changed meanwhile. The reaper still takes the claim back when the
// lease expires, whenever the schedule is due then.
func TestAChangeWhileADeadSchedulerHoldsTheClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(f *fixture, tx workqueue.Tx) error
		runs   int // occurrences that are owed afterwards
	}{
		"paused": {func(f *fixture, tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") }, 0},
		"resumed": {func(f *fixture, tx workqueue.Tx) error {
			if err := f.plan.Pause(f.Context(), tx, "s"); err != nil {
				return err
			}
			return f.plan.Resume(f.Context(), tx, "s")
		}, 0},
		"put": {func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: "@every 3h"})
		}, 1},
		"put as it was": {func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, hourly(schedule.Rule{}))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{}))
			f.missed("s", time.Hour)
			f.abandoned()
			f.do(func(tx workqueue.Tx) error { return c.change(f, tx) })
			f.reaped()
			f.scheduler()
			f.until("a scheduler has decided, and looks again at the next time", func() bool {
				return ask[bool](f, "SELECT status = 0 AND due_at > now() + interval '20 minutes' FROM "+f.table)
			})
			if got := f.get("s"); len(f.runs("s")) != c.runs || got.Status != workqueue.Ready ||
				got.Paused != (name == "paused") {
				t.Errorf("got %+v and %d runs, want %d", got, len(f.runs("s")), c.runs)
			}
		})
	}
}
