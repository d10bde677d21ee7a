package periodic_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

var all = schedule.Rule{Misfire: schedule.MisfireAll}

// owes puts a schedule that has missed some of its hours.
func (f *fixture) owes(rule schedule.Rule, hours int) (missed []time.Time) {
	f.Helper()
	f.put(hourly(rule))
	f.missed("s", time.Duration(hours)*time.Hour+30*time.Minute)
	next := *f.get("s").NextAt
	for i := range hours {
		missed = append(missed, next.Add(time.Duration(i)*time.Hour))
	}
	return missed
}

func equalTimes(a, b []time.Time) bool { return slices.EqualFunc(a, b, time.Time.Equal) }

// What was due before a change is written by the definition that it was due under.
func TestAChangeKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	once := schedule.Rule{}
	for name, c := range map[string]struct {
		old, new schedule.Rule
		expr     string
		want     int // the newest of five
	}{
		"another interval":       {all, all, "@every 2h", 5},
		"cron":                   {all, all, "0 0 1 1 *", 5},
		"only the newest":        {once, once, "@every 2h", 1},
		"none":                   {schedule.Rule{Misfire: schedule.MisfireSkip}, all, "@every 2h", 0},
		"another rule":           {all, schedule.Rule{Misfire: schedule.MisfireSkip}, "@every 1h", 5},
		"a rule and an interval": {schedule.Rule{Misfire: schedule.MisfireAll, Cap: 3}, once, "@every 2h", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
				missed := f.owes(c.old, 5)
				do(func(tx workqueue.Tx) error {
					return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: c.expr, Rule: c.new})
				})
				if got := f.get("s"); !got.NextAt.After(f.clock()) {
					f.Errorf("next at %v, want a time that is to come", got.NextAt)
				}
				f.scheduler()
				got := f.decided("s")
				if runs := f.runs("s"); !equalTimes(runs, missed[5-c.want:]) || got.Fired != int64(c.want) ||
					got.Skipped != int64(5-c.want) {
					f.Errorf("fired %v, counted %d and %d, want %v", runs, got.Fired, got.Skipped, missed[5-c.want:])
				}
			})
		})
	}
}

// Programs with two definitions start in turns, as in a deployment that goes wrong, and no scheduler runs meanwhile.
// Neither discards what is owed, and what is due while one is in force fires.
func TestDefinitionsInTurns(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	missed := f.owes(all, 3)
	two := periodic.Schedule{Name: "s", Expr: "@every 2h", Rule: all}
	for range 3 {
		f.put(two)
		f.put(hourly(all))
	}
	f.missed("s", time.Hour) // one more is due while the first is in force
	missed = append(missed, *f.get("s").NextAt)
	f.put(two)
	f.put(hourly(all))
	f.scheduler()
	f.decided("s")
	if runs := f.runs("s"); !equalTimes(runs, missed) {
		t.Errorf("fired %v, want %v", runs, missed)
	}
}

// An interval counts from the moment at which its schedule was created, however often it is changed.
func TestIntervalsKeepTheirPhase(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(all))
	first := *f.get("s").NextAt
	anchor := first.Add(-time.Hour)
	for _, c := range []struct {
		expr string
		want time.Duration // after the anchor
	}{
		{"@every 2h", 2 * time.Hour}, {"@every 60m", time.Hour}, {"@every 90m", 90 * time.Minute},
		{"0 0 1 1 *", 0}, {"@every 7h", 7 * time.Hour}, {"@every 1h", time.Hour},
	} {
		f.put(periodic.Schedule{Name: "s", Expr: c.expr})
		if got := *f.get("s").NextAt; c.want > 0 && !got.Equal(anchor.Add(c.want)) {
			t.Errorf("%s: next at %v, want %v", c.expr, got, anchor.Add(c.want))
		}
	}
	// Time has passed: the next time is the first one of the grid that is to come.
	f.exec("UPDATE " + f.table + " SET anchor = anchor - interval '10 hours'")
	f.put(periodic.Schedule{Name: "s", Expr: "@every 3h"})
	if got := *f.get("s").NextAt; !got.Equal(anchor.Add(2 * time.Hour)) {
		t.Errorf("next at %v, want %v", got, anchor.Add(2*time.Hour))
	}
}

// Two texts with one meaning are the same definition: nothing is planned anew.
func TestTheSameMeaningIsNoChange(t *testing.T) {
	t.Parallel()
	for _, texts := range [][2]string{
		{"@daily", "0 0 * * *"}, {"0 0 * * 0", "@weekly"}, {"0 9 * * 1-5", "0 9 * * MON-FRI"},
		{"@every 1h", "@every 60m"}, {"*/30 * * * *", "0,30 * * * *"},
	} {
		f := newPlan(t)
		f.put(periodic.Schedule{Name: "s", Expr: texts[0]})
		f.exec("UPDATE " + f.table + " SET next_at = '2050-01-01 00:00:00Z', due_at = '2050-01-01 00:00:00Z'")
		f.put(periodic.Schedule{Name: "s", Expr: texts[1]})
		if got := f.get("s"); got.NextAt.Year() != 2050 || got.Expr != texts[1] {
			t.Errorf("%q after %q: %q, next at %v", texts[1], texts[0], got.Expr, got.NextAt)
		}
	}
}

// While a program of an earlier release starts again and again, the newer definition stays.
func TestAnEarlierReleaseDoesNotReplaceANewerDefinition(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		put := func(version int64, expr string) periodic.Info {
			f.Helper()
			do(func(tx workqueue.Tx) error {
				return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: expr, Version: version,
					Template: []byte(expr)})
			})
			return f.get("s")
		}
		for _, c := range []struct {
			version int64
			expr    string
			want    string
		}{
			{0, "@every 1h", "@every 1h"}, {0, "@every 2h", "@every 2h"}, // without versions the last one wins
			{7, "@every 3h", "@every 3h"}, {0, "@every 2h", "@every 3h"}, {6, "@every 1h", "@every 3h"},
			{7, "@every 4h", "@every 4h"}, {8, "@every 5h", "@every 5h"}, {7, "@every 4h", "@every 5h"},
		} {
			if got := put(c.version, c.expr); got.Expr != c.want || string(got.Template) != c.want {
				f.Errorf("version %d, %s: the schedule has %s and %s, want %s", c.version, c.expr, got.Expr, got.Template,
					c.want)
			}
		}
		if got := f.get("s"); got.Version != 8 {
			f.Errorf("version %d", got.Version)
		}
		do(func(tx workqueue.Tx) error { return f.plan.Delete(f.Context(), tx, "s") })
		if got := put(1, "@every 1h"); got.Version != 1 { // a deleted schedule leaves no version behind
			f.Errorf("version %d", got.Version)
		}
		err := f.inTx(func(tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: "@daily", Version: -1})
		})
		if !errors.Is(err, workqueue.ErrInvalid) {
			f.Errorf("a negative version: %v", err)
		}
	})
}

// What is owed may exceed a transaction, and each piece may fail. It is written once, as is what the new definition has
// made due, which keeps its phase.
func TestWhatIsOwedIsWrittenInPieces(t *testing.T) {
	t.Parallel()
	var inserts atomic.Int32
	f := newPlan(t, func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			n, err := insertRuns(ctx, tx, occurrences)
			if inserts.Add(1)%2 == 1 {
				return 0, errors.New("failed after it has written")
			}
			return n, err
		}
	})
	whole := schedule.Rule{Misfire: schedule.MisfireAll, Cap: schedule.MaxFire}
	missed := f.owes(whole, 300)
	two := periodic.Schedule{Name: "s", Expr: "@every 2h", Rule: whole}
	f.put(two)
	f.missed("s", 7*time.Hour)
	next := *f.get("s").NextAt
	missed = append(missed, next, next.Add(2*time.Hour), next.Add(4*time.Hour))
	slices.SortFunc(missed, time.Time.Compare) // they are among those that are owed
	if got := f.get("s"); got.Owed != 300 {
		t.Errorf("%d are owed, want 300", got.Owed)
	}
	f.scheduler()
	f.until("nothing is owed", func() bool {
		return ask[bool](f, "SELECT fired >= 303 AND owed IS NULL AND next_at > now() FROM "+f.table)
	})
	got := f.get("s")
	if runs := f.runs("s"); !equalTimes(runs, missed) || got.Fired != 303 || got.Skipped != 0 || got.Owed != 0 {
		t.Errorf("%d runs, %+v", len(runs), got)
	}
	if !got.NextAt.Equal(next.Add(6 * time.Hour)) {
		t.Errorf("next at %v, want %v", got.NextAt, next.Add(6*time.Hour))
	}
}

// The rule that an occurrence was due under decides about it again when it is written: what was on time at the change
// may be late by then.
func TestWhatIsOwedMayBeTooLateLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		misfire schedule.Misfire
		fired   int64
	}{"skip": {schedule.MisfireSkip, 0}, "once": {schedule.MisfireOnce, 1}, "all": {schedule.MisfireAll, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			missed := f.owes(schedule.Rule{Misfire: c.misfire, Grace: 3 * time.Hour}, 2) // both are on time
			f.put(periodic.Schedule{Name: "s", Expr: "@every 2h"})
			if got := f.get("s"); got.Owed != 2 {
				t.Errorf("%d are owed, want 2", got.Owed)
			}
			f.exec("UPDATE " + f.table + " SET owed = jsonb_set(owed, '{0,grace}', '60000000')") // as if hours had passed
			f.scheduler()
			got := f.decided("s")
			if runs := f.runs("s"); !equalTimes(runs, missed[2-c.fired:]) || got.Fired != c.fired ||
				got.Skipped != 2-c.fired {
				t.Errorf("fired %v, %+v", runs, got)
			}
		})
	}
}

// The policy for overlaps is that of the definition in force, and it judges what is owed one by one.
func TestWhatIsOwedDoesNotOverlap(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	missed := f.owes(all, 3)
	f.put(periodic.Schedule{Name: "s", Expr: "@every 2h", Rule: schedule.Rule{Overlap: schedule.OverlapBuffer}})
	f.scheduler()
	f.until("one is written, and one waits", func() bool { return f.get("s").BufferedAt != nil })
	if got := f.get("s"); !equalTimes(f.runs("s"), missed[:1]) || !got.BufferedAt.Equal(missed[1]) ||
		got.Skipped != 1 || got.Owed != 0 {
		t.Errorf("fired %v, %+v", f.runs("s"), got)
	}
}

// A pause drops what is owed, and a paused schedule owes nothing when it is changed.
func TestAPauseDropsWhatIsOwed(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.owes(all, 3)
	two := periodic.Schedule{Name: "s", Expr: "@every 2h", Rule: all}
	f.put(two)
	pause := func(tx workqueue.Tx) error { return f.plan.Pause(t.Context(), tx, "s") }
	f.do(pause)
	if got := f.get("s"); got.Owed != 0 || got.Skipped != 3 {
		t.Errorf("got %+v", got)
	}
	f.missed("s", 5*time.Hour)
	f.put(hourly(all))
	f.do(func(tx workqueue.Tx) error { return f.plan.Resume(t.Context(), tx, "s") })
	if got := f.get("s"); got.Owed != 0 || got.Skipped != 3 || !got.NextAt.After(f.clock()) {
		t.Errorf("got %+v", got)
	}
}

// A schedule that was stored before there were anchors and versions keeps its phase and fires.
func TestAScheduleOfAnEarlierTable(t *testing.T) {
	t.Parallel()
	f := newPlan(t)
	f.put(hourly(all))
	f.exec("UPDATE " + f.table + " SET anchor = NULL, version = NULL")
	f.missed("s", 90*time.Minute)
	phase := *f.get("s").NextAt
	f.scheduler()
	f.until("it fires", func() bool { return len(f.runs("s")) == 1 })
	f.decided("s")
	f.put(periodic.Schedule{Name: "s", Expr: "@every 90m", Rule: all, Version: 1})
	got := f.get("s")
	if off := got.NextAt.Sub(phase) % (30 * time.Minute); off != 0 || got.Version != 1 {
		t.Errorf("next at %v, version %d, want the phase of %v", got.NextAt, got.Version, phase)
	}
}

// A put repairs a schedule whose stored text cannot be read, whatever it owes.
func TestAPutRepairsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{"zone": "zone = 'Mars/Olympus'", "owed": "owed = '{}'",
		"policy of what is owed": `owed = '[{"misfire": "maybe", "due": ["2026-01-01T00:00:00Z"]}]'`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.owes(all, 3)
			f.exec("UPDATE " + f.table + " SET " + broken)
			f.put(periodic.Schedule{Name: "s", Expr: "@every 2h"})
			f.missed("s", 2*time.Hour)
			f.scheduler()
			f.until("it fires", func() bool { return len(f.runs("s")) > 0 })
			if got := f.get("s"); got.LastError != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}
