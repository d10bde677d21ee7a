package writers

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A schedule that was triggered in SQL has a timer or job with the id that SQL was told, and it runs.
func TestSchedulesAreTriggeredInSQL(t *testing.T) {
	f := newFixture(t)
	clock, err := timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	f.ok(pgx.BeginFunc(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
		err := clock.Schedules().Put(t.Context(), workqueue.Pgx(tx), timers.Schedule{Name: "s", Expr: "@every 1h",
			Topic: "t", Payload: []byte("of the schedule")})
		if err != nil {
			return err
		}
		return client.Schedules().Put(t.Context(), workqueue.Pgx(tx), jobs.Schedule{Name: "s", Expr: "@every 1h",
			Args: thumbnail{"cat.png"}})
	}))
	enqueueing, err := client.Schedules().Scheduler(f.db.Pool, periodic.SchedulerOptions{})
	f.ok(err)
	for table, scheduler := range map[string]txworktest.Worker{"timers": f.workers["timers"], "jobs": enqueueing} {
		f.handled.payloads = nil
		id := ask[uuid.UUID](f, "SELECT id FROM txwork."+table+"_schedule_trigger('s')")
		txworktest.Drain(t, f.db.Pool, scheduler)
		got := ask[string](f, "SELECT schedule FROM txwork."+table+" WHERE id = $1 AND due_at <= now()", id)
		if got != "s" {
			t.Errorf("%s: of the schedule %q", table, got)
		}
		if left := ask[bool](f, "SELECT triggers IS NOT NULL OR due_at <= now() FROM txwork."+table+"_schedule"); left {
			t.Errorf("%s: the schedule is still triggered", table)
		}
		if table == "timers" && !slices.Equal(f.handled.payloads, []string{"of the schedule"}) {
			t.Errorf("the timer has %q", f.handled.payloads)
		}
	}
}
