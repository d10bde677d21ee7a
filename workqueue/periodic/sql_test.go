package periodic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// tells calls one of the functions, which has to return the result.
func (f *fixture) tells(call, want string) {
	f.Helper()
	if got := ask[string](f, "SELECT result FROM runs_schedule_"+call); got != want {
		f.Errorf("%s: %s, want %s", call, got, want)
	}
}

// trigger triggers a schedule, and returns the id of the occurrence.
func (f *fixture) trigger(name string) uuid.UUID {
	f.Helper()
	return ask[uuid.UUID](f, "SELECT id FROM runs_schedule_trigger($1)", name)
}

// pausable is what a pause changes.
const pausable = "SELECT concat_ws(' ', paused, due_at > '9999-01-01', skipped, buffered_at, owed, resumed_at, next_at " +
	"IS NOT NULL) FROM runs_schedule"

// A pause in SQL is that of Go, and so is the plan after it, but that a scheduler makes it.
func TestAPauseInSQL(t *testing.T) {
	t.Parallel()
	ways := map[string][2]func(f *fixture){
		"Go": {
			func(f *fixture) {
				f.do(func(tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") })
			},
			func(f *fixture) {
				f.do(func(tx workqueue.Tx) error { return f.plan.Resume(f.Context(), tx, "s") })
			},
		},
		"SQL": {
			func(f *fixture) {
				f.tells("pause('s')", "paused")
				f.tells("pause('s')", "paused")
			},
			func(f *fixture) {
				f.tells("resume('s')", "resumed")
				f.tells("resume('s')", "resumed")
			},
		},
	}
	pauses := map[string]string{}
	for name, way := range ways {
		f := newPlan(t)
		f.owes(all, 3)
		f.put(periodic.Schedule{Name: "s", Expr: "@every 2h", Rule: all})
		way[0](f)
		pauses[name] = ask[string](f, pausable)
		if got := f.get("s"); !got.Paused || got.NextAt != nil || got.Owed != 0 || got.Skipped != 3 {
			t.Errorf("%s: paused %+v", name, got)
		}
		f.missed("s", 10*time.Hour+30*time.Minute)
		way[1](f)
		want := *f.get("s").NextAt // before a scheduler has looked at it, and after
		f.scheduler()
		got := f.decided("s")
		if got.Paused || !got.NextAt.Equal(want) || got.Skipped != 3 || len(f.runs("s")) != 0 {
			t.Errorf("%s: resumed %+v, %d runs, next was %v", name, got, len(f.runs("s")), want)
		}
		if in := got.NextAt.Sub(f.clock()); in <= 0 || in > 2*time.Hour {
			t.Errorf("%s: goes on in %v", name, in)
		}
		f.missed("s", 2*time.Hour)
		f.until("it fires again", func() bool { return len(f.runs("s")) == 1 })
	}
	if pauses["Go"] != pauses["SQL"] {
		t.Errorf("a pause leaves %s, in SQL %s", pauses["Go"], pauses["SQL"])
	}
}

// Between a resume in SQL and the decision, a schedule can be changed and paused again.
func TestAResumeInSQLIsPlannedByWhoeverComesNext(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(all))
	f.tells("pause('s')", "paused")
	f.missed("s", 5*time.Hour)
	f.tells("resume('s')", "resumed")
	f.put(periodic.Schedule{Name: "s", Expr: "@every 3h", Rule: all})
	if got := f.get("s"); got.Owed != 0 || got.Skipped != 0 || !got.NextAt.After(f.clock()) {
		t.Errorf("changed %+v", got)
	}
	f.tells("pause('s')", "paused")
	f.tells("resume('s')", "resumed")
	f.tells("pause('s')", "paused")
	f.do(func(tx workqueue.Tx) error { return f.plan.Resume(t.Context(), tx, "s") })
	if got := f.get("s"); !got.NextAt.After(f.clock()) || ask[string](f, pausable) != "f f 0 t" {
		t.Errorf("resumed %+v, %s", got, ask[string](f, pausable))
	}
}

// A trigger in SQL is written by a scheduler, with the id that SQL was told and the time at which it asked, whether the
// schedule is paused or not. The plan goes on as it was.
func TestATriggerInSQL(t *testing.T) {
	t.Parallel()
	var ids atomic.Pointer[[]uuid.UUID]
	ids.Store(&[]uuid.UUID{})
	var refuse atomic.Bool
	f := newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, list []periodic.Occurrence) (int, error) {
			if refuse.CompareAndSwap(true, false) {
				return 0, errors.New("not yet")
			}
			for _, one := range list {
				if !one.Triggered || one.ID.Version() != 7 || !one.DueAt.Equal(one.Nominal) {
					return 0, fmt.Errorf("wrong occurrence %+v", one)
				}
				more := append(slices.Clone(*ids.Load()), one.ID)
				ids.Store(&more)
			}
			return insertRuns(ctx, tx, list)
		}
	})
	f.put(hourly(schedule.Rule{Overlap: schedule.OverlapSkip}), periodic.Schedule{Name: "paused", Expr: "@every 1h"})
	f.tells("pause('paused')", "paused")
	next := *f.get("s").NextAt
	began := f.clock()
	want := []uuid.UUID{f.trigger("s"), f.trigger("s")}
	asked := f.clock()
	refuse.Store(true)
	f.scheduler()
	f.until("both are written", func() bool { return len(f.runs("s")) == 2 })
	for _, at := range f.runs("s") {
		if at.Before(began) || at.After(asked) {
			t.Errorf("triggered at %v, asked between %v and %v", at, began, asked)
		}
	}
	if got := f.decided("s"); !got.NextAt.Equal(next) || got.Fired != 0 || got.Skipped != 0 || got.LastAt != nil {
		t.Errorf("the plan is %+v", got)
	}
	want = append(want, f.trigger("paused"))
	f.until("a paused one is written", func() bool { return len(f.runs("paused")) == 1 })
	f.until("and stays paused", func() bool {
		return ask[bool](f, "SELECT paused AND status = 0 AND triggers IS NULL AND due_at > now() + interval '300 days' "+
			"FROM runs_schedule WHERE name = 'paused'")
	})
	if !slices.Equal(*ids.Load(), want) {
		t.Errorf("written with the ids %v, want %v", *ids.Load(), want)
	}
}

// What a schedule was triggered for outlives its pause, its resume and its change, and is written in pieces.
func TestTriggersInSQLWait(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(all))
	for range 300 {
		f.trigger("s")
	}
	f.tells("pause('s')", "paused")
	f.trigger("s")
	f.tells("resume('s')", "resumed")
	f.put(periodic.Schedule{Name: "s", Expr: "@every 3h", Rule: all})
	f.tells("pause('s')", "paused")
	f.do(func(tx workqueue.Tx) error { return f.plan.Resume(t.Context(), tx, "s") })
	f.scheduler()
	f.until("all are written", func() bool { return len(f.runs("s")) == 301 })
	if got := f.decided("s"); got.Fired != 0 || !got.NextAt.After(f.clock()) {
		t.Errorf("the plan is %+v", got)
	}
}

// What a function cannot do it says; what it refuses, it refuses with the parameter.
func TestChangesInSQLThatChangeNothing(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(all), periodic.Schedule{Name: "ended", Expr: "@every 1h"}, periodic.Schedule{Name: "full",
		Expr: "@every 1h"})
	for _, function := range []string{"pause", "resume", "trigger"} {
		f.tells(function+"('none')", "gone")
		for _, name := range []string{"NULL", "''", "repeat('x', 201)"} {
			_, err := f.Pool.Exec(t.Context(), "SELECT runs_schedule_"+function+"("+name+")")
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != "name" || pg.Hint == "" ||
				!strings.HasPrefix(pg.Message, "name must have") {
				t.Errorf("%s(%s): %v", function, name, err)
			}
		}
	}
	f.exec("UPDATE runs_schedule SET status = 2, completed_at = now() WHERE name = 'ended'")
	f.tells("trigger('ended')", "ended")
	f.exec("UPDATE runs_schedule SET triggers = (SELECT jsonb_agg(n) FROM generate_series(1, 1000) AS n) WHERE name = 'full'")
	f.tells("trigger('full')", "full")
	f.tells("trigger('s')", "triggered")
}

// A trigger while a scheduler decides waits for it, and is written by the next decision.
func TestATriggerInSQLDuringTheDecision(t *testing.T) {
	t.Parallel()
	f, inside, goOn := newHeldPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.duringTheDecision(inside, goOn, func() { f.tells("trigger('s')", "triggered") })
	f.until("it is written", func() bool { return len(f.runs("s")) == 2 })
}
