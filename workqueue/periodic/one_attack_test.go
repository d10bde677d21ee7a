package periodic_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestAtk200EverySecond(t *testing.T) {
	f := newPlan(t)
	var list []periodic.Schedule
	for i := range 200 {
		list = append(list, periodic.Schedule{Name: fmt.Sprintf("s%03d", i), Expr: "@every 1s", Rule: schedule.Rule{Misfire: schedule.MisfireAll}})
	}
	f.put(list...)
	f.scheduler()
	f.scheduler()
	time.Sleep(10 * time.Second)
	type res struct {
		n, gaps int
		late    float64
	}
	t.Logf("runs %d; max late %.3fs avg %.3fs; skipped %d; errors %d",
		ask[int](f, "SELECT count(*) FROM runs"),
		ask[float64](f, "SELECT extract(epoch FROM max(written_at-nominal))::float8 FROM runs"),
		ask[float64](f, "SELECT extract(epoch FROM avg(written_at-nominal))::float8 FROM runs"),
		ask[int](f, "SELECT sum(skipped)::int FROM "+f.table), ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE last_error IS NOT NULL"))
	if n := ask[int](f, "SELECT count(*) FROM (SELECT nominal - lag(nominal) OVER (PARTITION BY schedule ORDER BY nominal) AS d FROM runs) x WHERE d <> interval '1 second'"); n != 0 {
		t.Errorf("%d gaps", n)
	}
	if n := ask[int](f, "SELECT count(*) FROM runs WHERE written_at < nominal"); n != 0 {
		t.Errorf("%d early", n)
	}
	if n := ask[int](f, "SELECT sum(fired)::int FROM "+f.table); n < 1500 {
		t.Errorf("fired %d", n)
	}
}

func TestAtkConcurrentTriggerBackfillDelete(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.scheduler()
	f.exec("UPDATE "+f.table+" SET created_at = now() - interval '3 days', last_at = NULL")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := f.inTx(func(tx workqueue.Tx) error { _, err := f.plan.Trigger(f.Context(), tx, "s"); return err }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(f.runs("s")); n != 100 {
		t.Errorf("%d triggered", n)
	}
	now := f.clock()
	var mu sync.Mutex
	total := 0
	for range 6 {
		wg.Go(func() {
			if err := f.inTx(func(tx workqueue.Tx) error {
				n, err := f.plan.Backfill(f.Context(), tx, "s", now.Add(-48*time.Hour), now.Add(-time.Second))
				mu.Lock()
				total += n
				mu.Unlock()
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if total != 48 || len(f.runs("s")) != 148 {
		t.Errorf("backfill wrote %d, runs %d", total, len(f.runs("s")))
	}
}

func TestAtkChangeWhileFiring(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.scheduler()
	f.scheduler()
	stop := time.Now().Add(8 * time.Second)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; time.Now().Before(stop); i++ {
				name := fmt.Sprintf("c%d", i%3)
				err := f.inTx(func(tx workqueue.Tx) error {
					switch (i + g) % 6 {
					case 0, 1:
						return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: name, Expr: fmt.Sprintf("@every %ds", 1+i%2), Rule: schedule.Rule{Overlap: schedule.OverlapAllow}})
					case 2:
						return f.plan.Pause(f.Context(), tx, name)
					case 3:
						return f.plan.Resume(f.Context(), tx, name)
					case 4:
						_, err := f.plan.Trigger(f.Context(), tx, name)
						return err
					default:
						if i%10 == 0 {
							return f.plan.Delete(f.Context(), tx, name)
						}
						return nil
					}
				})
				if err != nil && !isNotFound(err) {
					t.Errorf("%v", err)
				}
				time.Sleep(3 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	for i := range 3 {
		name := fmt.Sprintf("c%d", i)
		f.put(periodic.Schedule{Name: name, Expr: "@every 1s"})
		f.do(func(tx workqueue.Tx) error { return f.plan.Resume(f.Context(), tx, name) })
		before := len(f.runs(name))
		f.until("goes on", func() bool { return len(f.runs(name)) >= before+2 })
	}
	if n := ask[int](f, "SELECT count(*) FROM runs WHERE written_at < nominal - interval '1 millisecond'"); n != 0 {
		t.Errorf("%d early", n)
	}
	t.Logf("runs %d", ask[int](f, "SELECT count(*) FROM runs"))
}

func isNotFound(err error) bool { return err != nil && (errorsIs(err, periodic.ErrNotFound)) }
func errorsIs(err, target error) bool {
	for ; err != nil; {
		if err == target {
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

func TestAtkWeekMisfireMatrix(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	type c struct {
		name string
		rule schedule.Rule
		want int
	}
	cases := []c{}
	for _, m := range []schedule.Misfire{schedule.MisfireSkip, schedule.MisfireOnce, schedule.MisfireAll} {
		for _, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBuffer} {
			cases = append(cases, c{fmt.Sprintf("%v/%v", m, o), schedule.Rule{Misfire: m, Overlap: o, Jitter: 3 * time.Hour}, 0})
		}
	}
	for _, c := range cases {
		f.put(periodic.Schedule{Name: c.name, Expr: "@every 1h", Rule: c.rule})
	}
	for _, c := range cases {
		f.exec("UPDATE "+f.table+" SET next_at = next_at - interval '168 hours 30 minutes', due_at = now() WHERE name = $1", c.name)
	}
	f.scheduler()
	time.Sleep(2 * time.Second)
	for _, c := range cases {
		i := f.get(c.name)
		t.Logf("%s: fired %d skipped %d buffered %v next %v", c.name, i.Fired, i.Skipped, i.BufferedAt, i.NextAt)
	}
	// buffer chain: end each run and see the buffered one come
	f.exec("UPDATE runs SET ended = true")
	time.Sleep(2500 * time.Millisecond)
	for _, c := range cases {
		i := f.get(c.name)
		t.Logf("then %s: fired %d skipped %d buffered %v", c.name, i.Fired, i.Skipped, i.BufferedAt)
		if int(i.Fired) != len(f.runs(c.name)) {
			t.Errorf("%s fired %d runs %d", c.name, i.Fired, len(f.runs(c.name)))
		}
	}
}

func TestAtkClockBack(t *testing.T) {
	t.Parallel()
	// The clock was a year ahead: next_at is in a year. Does putting the schedule at start-up repair it?
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.exec("UPDATE " + f.table + " SET next_at = next_at + interval '365 days', due_at = due_at + interval '365 days'")
	f.put(hourly(schedule.Rule{}))
	t.Logf("after a clock that was a year ahead and a Put: next %v", f.get("s").NextAt)
}

func TestAtkZoneRemoved(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(periodic.Schedule{Name: "z", Expr: "* * * * *", Zone: "Europe/Berlin"}, periodic.Schedule{Name: "ok", Expr: "@every 1s"})
	f.exec("UPDATE " + f.table + " SET zone = 'Mars/Olympus', next_at = now(), due_at = now() WHERE name = 'z'")
	f.scheduler()
	f.until("error", func() bool { return f.get("z").LastError != "" })
	t.Logf("%q", f.get("z").LastError)
	f.until("others go on", func() bool { return len(f.runs("ok")) > 2 })
	err := f.inTx(func(tx workqueue.Tx) error { _, err := f.plan.Backfill(f.Context(), tx, "z", f.clock().Add(-time.Hour), f.clock().Add(-time.Minute)); return err })
	t.Logf("backfill: %v", err)
	f.do(func(tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "z") })
	err = f.inTx(func(tx workqueue.Tx) error { return f.plan.Resume(f.Context(), tx, "z") })
	t.Logf("resume: %v", err)
	f.do(func(tx workqueue.Tx) error { _, err := f.plan.List(f.Context(), tx, periodic.Filter{}); return err })
	f.do(func(tx workqueue.Tx) error { return f.plan.Delete(f.Context(), tx, "z") })
}

// slow inserts: the transaction outlives the next nominal time.
func TestAtkSlowInsert(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	slow := openPlan(t, f.Schema, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occ []periodic.Occurrence) (int, error) {
			time.Sleep(1700 * time.Millisecond)
			return insertRuns(ctx, tx, occ)
		}
	})
	f.put(periodic.Schedule{Name: "s", Expr: "@every 1s", Rule: schedule.Rule{Misfire: schedule.MisfireAll}})
	f.schedulerOf(f.Pool, slow)
	time.Sleep(9 * time.Second)
	i := f.get("s")
	t.Logf("fired %d skipped %d err %q runs %d", i.Fired, i.Skipped, i.LastError, len(f.runs("s")))
	if i.LastError != "" || i.Fired < 5 {
		t.Errorf("%+v", i)
	}
}
