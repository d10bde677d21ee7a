package periodic_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestTrigger(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		f.put(hourly(schedule.Rule{Overlap: schedule.OverlapSkip, Jitter: time.Hour}))
		before := f.get("s")
		do(func(tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") })
		keys := map[string]bool{}
		for range 3 {
			do(func(tx workqueue.Tx) error {
				o, err := f.plan.Trigger(f.Context(), tx, "s")
				if !o.Triggered || o.Nominal.IsZero() || !o.DueAt.Equal(o.Nominal) || string(o.Template) != "t" ||
					!strings.HasPrefix(o.Key, "schedule/s/trigger/") {
					f.Errorf("got %+v", o)
				}
				keys[o.Key] = true
				return err
			})
		}
		if len(keys) != 3 || len(f.runs("s")) != 3 {
			f.Errorf("keys %v, runs %v", keys, f.runs("s"))
		}
		if got := f.get("s"); got.Fired != before.Fired || got.LastAt != nil {
			f.Errorf("the plan has changed: %+v", got)
		}
	})
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		f.put(periodic.Schedule{Name: "s", Expr: "0 3 * * *", Zone: "Europe/Berlin", Template: []byte("t")})
		day := func(d int) time.Time {
			berlin, _ := time.LoadLocation("Europe/Berlin")
			return time.Date(2024, 3, d, 3, 0, 0, 0, berlin)
		}
		preview := func(from, to time.Time) (list []periodic.Occurrence, err error) {
			do(func(tx workqueue.Tx) error {
				list, err = f.plan.PreviewBackfill(f.Context(), tx, "s", from, to)
				return nil
			})
			return list, err
		}
		backfill := func(from, to time.Time) (n int, err error) {
			do(func(tx workqueue.Tx) error {
				n, err = f.plan.Backfill(f.Context(), tx, "s", from, to)
				return nil
			})
			return n, err
		}
		for _, c := range []struct {
			from, to time.Time
			want     int
		}{
			{day(28), day(30), 3},                      // both ends included
			{day(27), day(31), 2},                      // three exist already
			{day(27), day(31), 0},                      // all exist already
			{day(27).Add(1), day(28).Add(-1), 0},       // none
			{day(31).Add(-25 * time.Hour), day(31), 0}, // on 31 March 2024 the clock jumped at two
		} {
			if n, err := backfill(c.from, c.to); err != nil || n != c.want {
				f.Errorf("from %v to %v: %d, %v; want %d", c.from, c.to, n, err, c.want)
			}
		}
		do(func(tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") })
		if list, err := preview(day(26), day(31)); err != nil || len(list) != 6 || !list[0].Nominal.Equal(day(26)) {
			f.Errorf("previewed %+v, %v", list, err)
		}
		if n := len(f.runs("s")); n != 5 {
			f.Errorf("%d runs", n)
		}
		for name, c := range map[string]struct {
			from, to time.Time
			want     string
		}{
			"backwards": {day(2), day(1), "before it begins"},
			"future":    {day(1), f.clock().Add(time.Hour), "later than now"},
			"too much":  {day(1).AddDate(-10, 0, 0), day(1), "more than the 1000 occurrences"},
		} {
			if _, err := backfill(c.from, c.to); !errors.Is(err, workqueue.ErrInvalid) ||
				!strings.Contains(err.Error(), c.want) {
				f.Errorf("%s: got %v", name, err)
			}
			if _, err := preview(c.from, c.to); !errors.Is(err, workqueue.ErrInvalid) {
				f.Errorf("%s: previewed %v", name, err)
			}
		}
		if n := len(f.runs("s")); n != 5 {
			f.Errorf("%d runs", n)
		}
	})
}

// An interval has no calendar: its past occurrences count back from its next one.
func TestBackfillOfAnIntervalIsIdempotentWithWhatHasFired(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.missed("s", 5*time.Hour+30*time.Minute)
	f.scheduler()
	last := *f.decided("s").LastAt // the newest of five
	f.do(func(tx workqueue.Tx) error {
		n, err := f.plan.Backfill(t.Context(), tx, "s", last.Add(-4*time.Hour), f.clock())
		if n != 4 {
			t.Errorf("backfilled %d, want 4", n)
		}
		return err
	})
	runs := f.runs("s")
	for i, at := range runs {
		if !at.Equal(last.Add(time.Duration(i-4) * time.Hour)) {
			t.Errorf("runs %v", runs)
		}
	}
}
