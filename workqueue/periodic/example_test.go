package periodic_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A domain writes a row for each occurrence. Its table needs a unique key, and Insert has to skip existing rows.
func ExampleOpen() {
	plan, err := periodic.Open(periodic.Options{
		Table: "reports_schedule", // made by DDL
		Insert: func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			written := int64(0)
			for _, o := range occurrences {
				n, err := tx.Exec(ctx, "INSERT INTO reports (key, day) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING",
					o.Key, o.Nominal)
				if err != nil {
					return 0, err
				}
				written += n
			}
			return int(written), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Table().Name())
	// Output:
	// txwork.reports_schedule
}

// Schedules are put when the program starts; any number of its processes may run the scheduler.
func ExamplePlan_Put() {
	run := func(ctx context.Context, pool *pgxpool.Pool, plan *periodic.Plan) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return plan.Put(ctx, workqueue.Pgx(tx), periodic.Schedule{
				Name: "daily", Expr: "0 6 * * MON-FRI", Zone: "Europe/Berlin",
				Rule: schedule.Rule{Misfire: schedule.MisfireSkip, Grace: time.Hour, Jitter: 5 * time.Minute},
			})
		})
		if err != nil {
			return err
		}
		s, err := periodic.NewScheduler(pool, plan, periodic.SchedulerOptions{})
		if err != nil {
			return err
		}
		return s.Run(ctx)
	}
	_ = run
}

// One call writes the occurrences of a missed range. A second call finds that they exist.
func ExamplePlan_Backfill() {
	catchUp := func(ctx context.Context, tx pgx.Tx, plan *periodic.Plan, day time.Time) error {
		n, err := plan.Backfill(ctx, workqueue.Pgx(tx), "daily", day, day.AddDate(0, 0, 1))
		fmt.Println(n, "occurrences were missing")
		return err
	}
	_ = catchUp
}
