package periodic_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestAScheduleIsWhatWasPut(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		rule := schedule.Rule{Misfire: schedule.MisfireAll, Cap: 7, Grace: 3 * time.Second,
			Overlap: schedule.OverlapBuffer, Jitter: time.Minute}
		do(func(tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx,
				periodic.Schedule{Name: "b ö", Expr: "30 2  * * MON-FRI", Zone: "America/New_York", Rule: rule,
					Template: []byte{0, 0xff, '"'}},
				periodic.Schedule{Name: "a", Expr: "@daily"})
		})
		do(func(tx workqueue.Tx) error {
			list, err := f.plan.List(f.Context(), tx, periodic.Filter{})
			if err != nil {
				return err
			}
			if len(list) != 2 || list[0].Name != "a" || list[0].Zone != "UTC" || len(list[0].Template) != 0 {
				f.Errorf("listed %+v", list)
			}
			got, err := f.plan.Get(f.Context(), tx, "b ö")
			switch {
			case err != nil:
				return err
			case got.Expr != "30 2 * * MON-FRI", got.Zone != "America/New_York", got.Rule != rule,
				string(got.Template) != "\x00\xff\"":
				f.Errorf("got %+v", got)
			case got.Status != workqueue.Ready, got.Paused, got.LastAt != nil, got.BufferedAt != nil, got.Fired != 0,
				got.Skipped != 0:
				f.Errorf("got %+v", got)
			}
			parsed, _ := schedule.Parse(got.Expr, got.Zone)
			if want, _ := parsed.Next(got.CreatedAt); got.NextAt == nil || !got.NextAt.Equal(want) {
				f.Errorf("next at %v, want %v", got.NextAt, want)
			}
			return nil
		})
	})
}

func TestPuttingAgain(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		put := func(s periodic.Schedule) {
			f.Helper()
			do(func(tx workqueue.Tx) error { return f.plan.Put(f.Context(), tx, s) })
		}
		put(hourly(schedule.Rule{}))
		f.exec("UPDATE " + f.table + " SET next_at = '2050-01-01 00:30:00Z', due_at = '2050-01-01 00:30:00Z'")
		far := time.Date(2050, 1, 1, 0, 30, 0, 0, time.UTC)

		changed := hourly(schedule.Rule{Jitter: time.Second, Misfire: schedule.MisfireSkip})
		changed.Template = []byte("new")
		put(changed)
		if got := f.get("s"); !got.NextAt.Equal(far) || got.Rule != changed.Rule || string(got.Template) != "new" {
			f.Errorf("the same expression: got %+v, want the next occurrence where it was", got)
		}
		for _, s := range []periodic.Schedule{
			{Name: "s", Expr: "@every 2h"},
			{Name: "s", Expr: "@every 3h", Zone: "Asia/Tokyo"},
			{Name: "s", Expr: "@daily", Zone: "Asia/Tokyo"},
		} {
			put(s)
			got := f.get("s")
			if got.NextAt.After(f.clock().Add(25*time.Hour)) || !got.NextAt.After(got.CreatedAt) {
				f.Errorf("%s in %s: next at %v", s.Expr, s.Zone, got.NextAt)
			}
			f.exec("UPDATE " + f.table + " SET next_at = '2050-01-01 00:30:00Z'")
		}
		for state, assign := range map[string]string{
			"done":   "status = 2, completed_at = now(), next_at = NULL",
			"failed": "status = 3, completed_at = now(), failed_at = now(), cancelled_at = now(), attempts = 5",
		} {
			f.exec("UPDATE " + f.table + " SET " + assign)
			put(hourly(schedule.Rule{}))
			if got := f.get("s"); got.Status != workqueue.Ready || got.NextAt == nil ||
				got.NextAt.After(f.clock().Add(2*time.Hour)) {
				f.Errorf("%s: got %+v, want it to begin again", state, got)
			}
		}
		if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 1 {
			f.Errorf("%d rows", n)
		}
	})
}

func TestAPausedScheduleThatIsPutStaysPaused(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.do(func(tx workqueue.Tx) error { return f.plan.Pause(t.Context(), tx, "s") })
	f.put(periodic.Schedule{Name: "s", Expr: "@daily"})
	if got := f.get("s"); !got.Paused || got.NextAt != nil || got.Expr != "0 0 * * *" && got.Expr != "@daily" {
		t.Errorf("got %+v", got)
	}
	if due := ask[time.Time](f, "SELECT due_at FROM "+f.table); due.Year() < 9999 {
		t.Errorf("due at %v", due)
	}
}

func TestSchedulesOfARolledBackTransaction(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	undo := errors.New("undo")
	err := f.inTx(func(tx workqueue.Tx) error {
		if err := f.plan.Put(t.Context(), tx, hourly(schedule.Rule{})); err != nil {
			return err
		}
		return undo
	})
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); err != undo || n != 0 {
		t.Errorf("%d rows, error %v", n, err)
	}
}

// refused are invalid schedules and the texts that their errors must contain.
var refused = map[string]struct {
	schedule periodic.Schedule
	want     string
}{
	"no name": {periodic.Schedule{Expr: "@daily"}, "schedule has no name"},
	"long name": {periodic.Schedule{Name: strings.Repeat("n", 201), Expr: "@daily"},
		"schedule name has 201 bytes, the limit is 200"},
	"NUL in name":   {periodic.Schedule{Name: "\x00", Expr: "@daily"}, "schedule name has a NUL byte"},
	"no expression": {periodic.Schedule{Name: "s"}, "expression"},
	"not cron":      {periodic.Schedule{Name: "s", Expr: "61 * * * *"}, "minute"},
	"NUL in expr":   {periodic.Schedule{Name: "s", Expr: "* * * * \x00"}, "NUL"},
	"never fires":   {periodic.Schedule{Name: "s", Expr: "0 0 30 2 *"}, "0 0 30 2 *"},
	"no such zone":  {periodic.Schedule{Name: "s", Expr: "@daily", Zone: "Mars/Olympus"}, "Mars/Olympus"},
	"NUL in zone":   {periodic.Schedule{Name: "s", Expr: "@daily", Zone: "\x00"}, "NUL"},
	"no interval":   {periodic.Schedule{Name: "s", Expr: "@every -5m"}, "@every -5m"},
	"large cap": {periodic.Schedule{Name: "s", Expr: "@daily", Rule: schedule.Rule{Cap: 1 << 20}},
		"cap is 1048576"},
	"negative grace": {periodic.Schedule{Name: "s", Expr: "@daily", Rule: schedule.Rule{Grace: -1}},
		"grace is negative"},
	"overlap": {periodic.Schedule{Name: "s", Expr: "@daily", Rule: schedule.Rule{Overlap: 9}}, "overlap"},
	"large template": {periodic.Schedule{Name: "s", Expr: "@daily", Template: make([]byte, periodic.MaxTemplate+1)},
		"template has"},
}

func TestBadSchedulesAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.do(func(tx workqueue.Tx) error {
		for name, c := range refused {
			err := f.plan.Put(t.Context(), tx, hourly(schedule.Rule{}), c.schedule)
			var invalid *workqueue.InvalidError
			if !errors.Is(err, workqueue.ErrInvalid) || !errors.As(err, &invalid) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
		var cause *schedule.Error
		if err := f.plan.Put(t.Context(), tx, refused["not cron"].schedule); !errors.As(err, &cause) ||
			cause.Field != "minute" {
			t.Errorf("got %v, want what package schedule said", err)
		}
		return nil
	})
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestOverlapNeedsLive(t *testing.T) {
	t.Parallel()
	f := newPlan(t, func(o *periodic.Options) { o.Live = nil })
	err := f.inTx(func(tx workqueue.Tx) error {
		return f.plan.Put(t.Context(), tx, hourly(schedule.Rule{Overlap: schedule.OverlapSkip}))
	})
	if !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	f.put(hourly(schedule.Rule{}))
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		ctx := f.Context()
		do(func(tx workqueue.Tx) error {
			_, getErr := f.plan.Get(ctx, tx, "x")
			_, triggerErr := f.plan.Trigger(ctx, tx, "x")
			_, backfillErr := f.plan.Backfill(ctx, tx, "x", time.Unix(0, 0), time.Unix(1, 0))
			for i, err := range []error{getErr, triggerErr, backfillErr, f.plan.Pause(ctx, tx, "x"),
				f.plan.Resume(ctx, tx, "x"), f.plan.Delete(ctx, tx, "x")} {
				if !errors.Is(err, workqueue.ErrNotFound) || !strings.Contains(err.Error(), `"x"`) {
					f.Errorf("%d: got %v, want ErrNotFound", i, err)
				}
			}
			if _, err := f.plan.Get(ctx, tx, "\x00"); !errors.Is(err, workqueue.ErrInvalid) {
				f.Errorf("got %v", err)
			}
			return nil
		})
	})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	for i := range 5 {
		f.put(periodic.Schedule{Name: fmt.Sprintf("b%d", i), Expr: "@daily"})
	}
	f.put(periodic.Schedule{Name: "a", Expr: "@daily"})
	names := func(filter periodic.Filter) (all string) {
		f.do(func(tx workqueue.Tx) error {
			list, err := f.plan.List(t.Context(), tx, filter)
			for _, i := range list {
				all += i.Name + " "
			}
			return err
		})
		return all
	}
	for _, c := range []struct {
		filter periodic.Filter
		want   string
	}{
		{periodic.Filter{}, "a b0 b1 b2 b3 b4 "},
		{periodic.Filter{Prefix: "b", Limit: 2}, "b0 b1 "},
		{periodic.Filter{Prefix: "b", Limit: 2, After: "b1"}, "b2 b3 "},
		{periodic.Filter{Prefix: "c"}, ""},
	} {
		if got := names(c.filter); got != c.want {
			t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
		}
	}
	f.do(func(tx workqueue.Tx) error {
		for _, bad := range []periodic.Filter{{Limit: -1}, {Limit: periodic.MaxPage + 1}, {Prefix: "\x00"}} {
			if _, err := f.plan.List(t.Context(), tx, bad); !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("%+v: got %v", bad, err)
			}
		}
		return nil
	})
}

func TestOpenRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]periodic.Options{
		"no insert": {Table: "x"},
		"no table":  {Insert: insertRuns},
		"lead":      {Table: "x", Insert: insertRuns, Lead: -1},
		"long lead": {Table: "x", Insert: insertRuns, Lead: periodic.MaxLead + 1},
	} {
		if _, err := periodic.Open(o); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	plan, err := periodic.Open(periodic.Options{Table: "x", Insert: insertRuns})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := periodic.NewScheduler(nil, plan, periodic.SchedulerOptions{}); s != nil ||
		!errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("a scheduler without a pool: %v, %v", s, err)
	}
	if _, err := periodic.NewScheduler(nil, nil, periodic.SchedulerOptions{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
