package periodic_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestAnOccurrenceIsWrittenOnceItsTimeHasCome(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(periodic.Schedule{Name: "s", Expr: "@every 1s", Template: []byte("t")})
	planned := *f.get("s").NextAt
	stop := f.scheduler()
	f.until("two occurrences are written", func() bool { return len(f.runs("s")) >= 2 })
	stop()
	got := f.get("s")
	runs := f.runs("s")
	if !runs[0].Equal(planned) || got.Fired != int64(len(runs)) || got.Skipped != 0 ||
		!got.LastAt.Equal(runs[len(runs)-1]) || !got.NextAt.Equal(got.LastAt.Add(time.Second)) {
		t.Errorf("planned %v; runs %v; now %+v", planned, runs, got)
	}
	if key := ask[string](f, "SELECT min(key) FROM runs"); key != "schedule/s/"+planned.UTC().Format(time.RFC3339) {
		t.Errorf("key %s", key)
	}
	if n := ask[int](f,
		"SELECT count(*) FROM runs WHERE written_at < nominal OR due_at <> nominal OR template <> 't'"); n > 0 {
		t.Errorf("%d occurrences are early, or are not what the schedule says", n)
	}
	if n := ask[int](f, "SELECT attempts FROM "+f.table); n != 0 {
		t.Errorf("%d attempts are left over", n)
	}
}

// Without a leader, each occurrence is written exactly once: none is missing, none is early, and none is much too late.
func TestThreeSchedulersShareFiftySchedules(t *testing.T) {
	t.Parallel()
	const schedules = 50
	f := newPlan(t)
	for i := range schedules {
		f.put(periodic.Schedule{Name: fmt.Sprint(i), Expr: "@every 1s",
			Rule: schedule.Rule{Misfire: schedule.MisfireAll}})
	}
	var stops []func()
	for range 3 {
		stops = append(stops, f.schedulerOf(f.Pool, openPlan(t, f.Schema)))
	}
	f.until("every schedule has fired", func() bool {
		return ask[int](f, "SELECT coalesce(min(fired), 0) FROM "+f.table) >= 4
	})
	for _, stop := range stops {
		stop()
	}
	var late time.Duration
	for i := range schedules {
		runs := f.runs(fmt.Sprint(i))
		info := f.get(fmt.Sprint(i))
		if int64(len(runs)) != info.Fired || info.Skipped != 0 ||
			!info.NextAt.Equal(runs[len(runs)-1].Add(time.Second)) {
			t.Errorf("%d: %d runs, %+v", i, len(runs), info)
		}
		for n := 1; n < len(runs); n++ {
			if runs[n].Sub(runs[n-1]) != time.Second {
				t.Errorf("%d: after %v comes %v", i, runs[n-1], runs[n])
			}
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM runs WHERE written_at < nominal"); n > 0 {
		t.Errorf("%d occurrences were early", n)
	}
	late = time.Duration(ask[float64](f, "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM "+
		"written_at - nominal)) FROM runs") * float64(time.Second))
	t.Logf("median lateness %v", late)
}

// Ten occurrences were missed by more than the grace, the newest half an hour ago.
func TestMisfires(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule           schedule.Rule
		fired, skipped int
	}{
		"skip":        {schedule.Rule{Misfire: schedule.MisfireSkip}, 0, 10},
		"once":        {schedule.Rule{Misfire: schedule.MisfireOnce}, 1, 9},
		"all, capped": {schedule.Rule{Misfire: schedule.MisfireAll, Cap: 3}, 3, 7},
		"all":         {schedule.Rule{Misfire: schedule.MisfireAll}, 10, 0},
		"grace":       {schedule.Rule{Misfire: schedule.MisfireSkip, Grace: 2 * time.Hour}, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(c.rule))
			next := *f.get("s").NextAt
			f.missed("s", 10*time.Hour+30*time.Minute)
			f.scheduler()
			got := f.decided("s")
			runs := f.runs("s")
			if len(runs) != c.fired || got.Fired != int64(c.fired) || got.Skipped != int64(c.skipped) {
				t.Errorf("%d runs, %d fired, %d skipped; want %d and %d", len(runs), got.Fired, got.Skipped, c.fired,
					c.skipped)
			}
			if want := next.Add(-30 * time.Minute); !got.NextAt.Equal(want) {
				t.Errorf("next at %v, want %v: the interval keeps its phase", got.NextAt, want)
			}
			if c.fired > 0 && !runs[len(runs)-1].Equal(got.NextAt.Add(-time.Hour)) {
				t.Errorf("the newest is %v", runs[len(runs)-1])
			}
		})
	}
}

func TestJitterIsTheSameForEverybody(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	rule := schedule.Rule{Misfire: schedule.MisfireAll, Jitter: 10 * time.Minute}
	f.put(hourly(rule))
	f.missed("s", 5*time.Hour)
	f.scheduler()
	f.decided("s")
	f.until("all are written", func() bool { return len(f.runs("s")) >= 4 })
	different := map[time.Duration]bool{}
	for _, at := range f.runs("s") {
		due := ask[time.Time](f, "SELECT due_at FROM runs WHERE nominal = $1", at)
		if due.Sub(at) != rule.Offset("s", at) {
			t.Errorf("%v is due %v later, want %v", at, due.Sub(at), rule.Offset("s", at))
		}
		different[due.Sub(at)] = true
	}
	if len(different) < 2 {
		t.Errorf("every occurrence has the jitter %v", different)
	}
}

// With a lead, an occurrence is written before its time, and due at its time.
func TestLead(t *testing.T) {
	t.Parallel()
	f := newPlan(t, func(o *periodic.Options) { o.Lead = 10 * time.Minute })
	f.put(hourly(schedule.Rule{}), periodic.Schedule{Name: "alone", Expr: "@every 1h",
		Rule: schedule.Rule{Overlap: schedule.OverlapSkip}})
	next := *f.get("s").NextAt
	f.missed("s", 55*time.Minute)
	f.missed("alone", 55*time.Minute)
	f.scheduler()
	if got := f.decided("s"); got.Fired != 1 || !got.NextAt.Equal(next.Add(5*time.Minute)) {
		t.Errorf("got %+v", got)
	}
	if got := f.decided("alone"); got.Fired != 0 {
		t.Errorf("what must not overlap was written ahead: %+v", got)
	}
	if due := ask[time.Time](f, "SELECT due_at FROM runs"); !due.Equal(next.Add(-55 * time.Minute)) {
		t.Errorf("due at %v, planned for %v", due, next.Add(-55*time.Minute))
	}
}

func TestAScheduleThatIsNeverDueAgainIsDone(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.exec("UPDATE " + f.table + " SET next_at = NULL, due_at = now()")
	f.scheduler()
	f.until("it is done", func() bool { return f.get("s").Status == workqueue.Done })
}

// Behind a pooler no notifications arrive, and statements are not prepared.
func TestASchedulerThatPolls(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	s, err := periodic.NewScheduler(f.Pool, f.plan,
		periodic.SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{NoListen: true, PollInterval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)
	f.until("it fires when it is woken", func() bool { s.Wake(); return len(f.runs("s")) == 1 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
