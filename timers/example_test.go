package timers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// An order that is not paid expires. The timer is set in the transaction that creates the order, and what its handler
// writes commits together with the settle of the firing.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	t, err := timers.Open(timers.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (7, 'open')"); err != nil {
			return err
		}
		_, err := t.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: "order/7", Topic: "order.unpaid",
			Delay: 50 * time.Millisecond})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	w, err := timers.NewWorker(pool, t, timers.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	w.Handle("order.unpaid", func(ctx context.Context, d *timers.Delivery) error {
		defer stop()
		return d.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE orders SET state = 'expired' WHERE id = 7 AND state = 'open'")
			return err
		})
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	var state string
	if err := pool.QueryRow(context.Background(), "SELECT state FROM orders WHERE id = 7").Scan(&state); err != nil {
		log.Fatal(err)
	}
	fmt.Println("order 7:", state)
	// Output:
	// order 7: expired
}

// Setting the same key again moves the timer, so a burst of changes is handled once, after the last change.
func ExampleTimers_Set_debounce() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	t, err := timers.Open(timers.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := t.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: "reindex/customer/7", Topic: "reindex",
				Delay: time.Minute})
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		list, err := t.List(ctx, workqueue.Pgx(tx), timers.Filter{Prefix: "reindex/"})
		for _, i := range list {
			fmt.Println(i.Key, "is", i.Status, "and was set", i.Generation, "times")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// reindex/customer/7 is ready and was set 3 times
}

// When the payment arrives, the timer is cancelled in the transaction that records it, here with database/sql.
func ExampleTimers_Cancel() {
	pay := func(ctx context.Context, t *timers.Timers, db *sql.DB, order int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit this does nothing
		if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", order); err != nil {
			return err
		}
		if _, err := t.Cancel(ctx, workqueue.SQL(tx), fmt.Sprintf("order/%d", order)); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = pay
}

// A timer that does not exist is an error for Get, but not for Cancel.
func ExampleTimers_Get() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	t, err := timers.Open(timers.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := t.Get(ctx, workqueue.Pgx(tx), "order/8")
		fmt.Println(errors.Is(err, workqueue.ErrNotFound), err)
		cancelled, err := t.Cancel(ctx, workqueue.Pgx(tx), "order/8")
		fmt.Println(len(cancelled), err)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// true txwork: timer "order/8" not found
	// 0 <nil>
}

// A program puts its schedule when it starts. The workers do the rest.
func ExampleSchedules_Put() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	t, err := timers.Open(timers.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return t.Schedules().Put(ctx, workqueue.Pgx(tx),
			timers.Schedule{
				Name: "nightly-report", Expr: "30 2 * * *", Zone: "Europe/Berlin", Topic: "report",
				Rule: schedule.Rule{Misfire: schedule.MisfireOnce, Overlap: schedule.OverlapSkip},
			},
			timers.Schedule{Name: "heartbeat", Expr: "@every 1s", Topic: "beat"},
		)
	})
	if err != nil {
		log.Fatal(err)
	}

	w, err := timers.NewWorker(pool, t, timers.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	w.Handle("beat", func(_ context.Context, d *timers.Delivery) error {
		fmt.Println("an occurrence of", d.Schedule, "that is late:", d.Late > time.Minute)
		stop()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// an occurrence of heartbeat that is late: false
}

// The timers' codec encodes values, and decodes them for the handler. It is JSON unless the options name another.
func ExampleTimer_value() {
	type Order struct{ ID int }
	remind := func(ctx context.Context, t *timers.Timers, tx pgx.Tx, o Order) error {
		_, err := t.Set(ctx, workqueue.Pgx(tx), timers.Timer{
			Key: fmt.Sprintf("order/%d/reminder", o.ID), Topic: "order.reminder", Delay: 24 * time.Hour, Value: o,
		})
		return err
	}
	handle := func(w *timers.Worker) {
		w.Handle("order.reminder", codec.Handler(func(_ context.Context, d *timers.Delivery, o Order) error {
			fmt.Println("order", o.ID, "is", d.Late, "late")
			return nil
		}))
	}
	_, _ = remind, handle
}
