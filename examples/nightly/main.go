// Nightly writes a sales report every night at half past two in Berlin, whatever daylight saving time does to that
// hour. The schedule is a row in the database: it survives restarts, and any number of workers process it without a
// leader.
package main

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // time zones, in case the machine has none

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

const tables = `CREATE TABLE example_nightly.reports (schedule text, key text, nominal timestamptz)`

var berlin = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return zone
}()

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Fresh(ctx, pool, "example_nightly", tables); err != nil {
		return err
	}
	t, err := timers.Open(timers.Options{Schema: "example_nightly"})
	if err != nil {
		return err
	}
	worker, err := timers.NewWorker(pool, t, timers.WorkerOptions{})
	if err != nil {
		return err
	}
	worker.Handle("report", report)
	plan := &planner{pool: pool, schedules: t.Schedules()}
	if err := example.Serve(ctx, plan.work, worker.Run); err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `
		WITH r AS (SELECT * FROM example_nightly.reports)
		VALUES ('nights made up for', (SELECT count(*) FROM r WHERE schedule = 'nightly' AND nominal < $1), 7),
		('of these, by the second backfill', $3::bigint, 0),
		('reports by hand', (SELECT count(*) FROM r WHERE key = $2), 1),
		('reports of the pulse, as its schedule counts', (SELECT count(*) FROM r WHERE schedule = 'pulse'),
			(SELECT fired FROM example_nightly.timers_schedule WHERE name = 'pulse')),
		('occurrences with two reports', (SELECT count(*) - count(DISTINCT key) FROM r), 0)`,
		plan.until, plan.triggered, plan.again)
}

// A planner does what a program does at its start, and what its operators do later.
type planner struct {
	pool      *pgxpool.Pool
	schedules *timers.Schedules
	until     time.Time // the end of the backfill
	again     int       // how many reports the second backfill has added
	triggered string    // the key of the report that was triggered by hand
}

func (p *planner) work(ctx context.Context) error {
	for _, do := range []func(context.Context, workqueue.Tx) error{p.put, p.foretell, p.backfill, p.trigger} {
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return do(ctx, workqueue.Pgx(tx)) })
		if err != nil {
			return err
		}
	}
	if err := example.Until(ctx, p.pool,
		`SELECT count(*) > 2 FROM example_nightly.reports WHERE schedule = 'pulse'`); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		return p.schedules.Pause(ctx, workqueue.Pgx(tx), "pulse")
	})
	if err != nil {
		return err
	}
	return example.Until(ctx, p.pool,
		`SELECT NOT EXISTS (SELECT FROM example_nightly.timers WHERE completed_at IS NULL)`)
}

// put declares the schedules. Put does not change a schedule that is the same already, so a program calls it at every
// start.
func (p *planner) put(ctx context.Context, tx workqueue.Tx) error {
	return p.schedules.Put(ctx, tx,
		timers.Schedule{
			Name: "nightly", Expr: "30 2 * * *", Zone: "Europe/Berlin", Topic: "report",
			// MisfireOnce: after an outage, only the last night that was missed is reported, however late. OverlapSkip:
			// if a report is still running the next night, that night is skipped.
			Rule: schedule.Rule{Misfire: schedule.MisfireOnce, Overlap: schedule.OverlapSkip},
		},
		timers.Schedule{Name: "pulse", Expr: "@every 1s", Topic: "report"})
}

// foretell prints the next report, and the reports around the end of daylight saving time. In that night Berlin's
// clocks show half past two twice, but there is only one report.
func (p *planner) foretell(ctx context.Context, tx workqueue.Tx) error {
	info, err := p.schedules.Get(ctx, tx, "nightly")
	if err != nil {
		return err
	}
	s, err := schedule.Parse(info.Expr, info.Zone)
	if err != nil {
		return err
	}
	fmt.Println("  next, by the plan: ", info.NextAt.In(berlin).Format(time.RFC1123Z))
	october := time.Date(2026, time.October, 24, 0, 0, 0, 0, berlin)
	for _, at := range s.Between(october, october.AddDate(0, 0, 3), 10) {
		fmt.Println("  end of October 2026:", at.Format(time.RFC1123Z))
	}
	return nil
}

// backfill writes the reports for the seven nights before yesterday noon. A second backfill finds nothing to do.
func (p *planner) backfill(ctx context.Context, tx workqueue.Tx) (err error) {
	now := time.Now().In(berlin)
	p.until = time.Date(now.Year(), now.Month(), now.Day()-1, 12, 0, 0, 0, berlin)
	from := p.until.AddDate(0, 0, -7)
	if _, err = p.schedules.Backfill(ctx, tx, "nightly", from, p.until); err != nil {
		return err
	}
	p.again, err = p.schedules.Backfill(ctx, tx, "nightly", from, p.until)
	return err
}

// trigger asks for an additional report now.
func (p *planner) trigger(ctx context.Context, tx workqueue.Tx) error {
	o, err := p.schedules.Trigger(ctx, tx, "nightly")
	p.triggered = o.Key
	return err
}

// report is the handler. It is called for every occurrence, and again if it failed. ScheduledAt is the nominal time,
// however late the report is made.
func report(ctx context.Context, d *timers.Delivery) error {
	return d.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO example_nightly.reports VALUES ($1, $2, $3)`, d.Schedule, d.Key,
			d.ScheduledAt)
		return err
	})
}
