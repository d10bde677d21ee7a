package security_test

import (
	"context"
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Operators and workers pause, resume and trigger schedules, by functions and in Go; others do not.
func TestSchedulesAreAnOperatorsToChange(t *testing.T) {
	f := newFixture(t)
	f.in(f.as("worker"), func(ctx context.Context, tx workqueue.Tx) error {
		return f.jobs.Schedules().Put(ctx, tx, jobs.Schedule{Name: "s", Expr: "@every 1h", Args: printArgs{9}})
	})
	f.in(f.as("worker"), func(ctx context.Context, tx workqueue.Tx) error {
		return f.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: "s", Expr: "@every 1h", Topic: "fired"})
	})
	for _, table := range []string{"jobs_schedule", "timers_schedule"} {
		for _, call := range []struct{ function, result string }{{"pause", "paused"}, {"resume", "resumed"},
			{"trigger", "triggered"}} {
			statement := "SELECT result FROM " + table + "_" + call.function + "('s')"
			for _, role := range []string{"operator", "worker"} {
				var got string
				must(t, f.as(role).QueryRow(t.Context(), statement).Scan(&got))
				if got != call.result {
					t.Errorf("%s as the %s: %s", statement, role, got)
				}
			}
			for _, role := range []string{"producer", "viewer"} {
				f.refuses(f.as(role), forbidden, statement)
			}
		}
		f.refuses(f.as("operator"), forbidden, "UPDATE "+table+" SET expr = expr")
		f.refuses(f.as("operator"), forbidden, "UPDATE "+table+" SET template = template")
	}
	for _, change := range []func(context.Context, workqueue.Tx, string) error{f.jobs.Schedules().Pause,
		f.jobs.Schedules().Resume, f.timers.Schedules().Pause, f.timers.Schedules().Resume} {
		f.in(f.as("operator"), func(ctx context.Context, tx workqueue.Tx) error { return change(ctx, tx, "s") })
	}
}

// A schedule that a policy hides is gone.
func TestATenantChangesNoScheduleOfOthers(t *testing.T) {
	f := newFixture(t)
	f.in(f.db.Pool, func(ctx context.Context, tx workqueue.Tx) error {
		return f.jobs.Schedules().Put(ctx, tx, jobs.Schedule{Name: "acme.s", Expr: "@every 1h", Args: printArgs{9}})
	})
	f.separate()
	for _, function := range []string{"pause", "resume", "trigger"} {
		call := "SELECT result FROM jobs_schedule_" + function + "('acme.s')"
		var got string
		must(t, f.asTenant("worker", "other").QueryRow(t.Context(), call).Scan(&got))
		if got != "gone" {
			t.Errorf("%s: %s", call, got)
		}
	}
	if n := len(f.lines("SELECT name FROM jobs_schedule WHERE NOT paused AND triggers IS NULL")); n != 1 {
		t.Error("the schedule was changed")
	}
}
