package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A message that is delivered twice has its effect once.
func Example() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase() // with the tables of the migrations
	defer closePool()
	box, err := inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}

	payment := inbox.Key{Consumer: "accounts", Source: "bank", MessageID: "payment-7"}
	for range 2 {
		result, err := box.Process(ctx, pool, payment, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 'alice'")
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Answer)
	}
	var balance int
	if err := pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 'alice'").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)
	// Output:
	// processed
	// duplicate
	// balance: 10
}

// A message is stored in a transaction, and processed by a worker after the transaction has committed.
func ExampleInbox_ReceiveMany() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}

	payment := inbox.Message{Consumer: "accounts", Source: "bank", MessageID: "payment-7", Topic: "payment.received",
		Payload: []byte("10")}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		results, err := box.ReceiveMany(ctx, workqueue.Pgx(tx), payment, payment)
		for _, result := range results {
			fmt.Println(result.Answer)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	worker, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "accounts"})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("payment.received", func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $1::text::int WHERE id = 'alice'",
			string(m.Payload))
		if err == nil {
			fmt.Printf("%s: %s\n", m.Topic, m.Payload)
			stop()
		}
		return err
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// stored
	// duplicate
	// payment.received: 10
}

// A consumer processes a batch in one transaction of database/sql. It does not acknowledge a message that another
// consumer is processing, so that it is delivered again. Duplicates are acknowledged with the others.
func ExampleInbox_Begin() {
	consume := func(ctx context.Context, box *inbox.Inbox, db *sql.DB, batch []inbox.Key,
		apply func(*sql.Tx, inbox.Key) error) (acknowledge []inbox.Key, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback() // after a commit this does nothing
		for _, key := range batch {
			result, err := box.Begin(ctx, workqueue.SQL(tx), key)
			if err == nil && result.Answer == inbox.Processed {
				err = apply(tx, key)
			}
			if err != nil {
				return nil, err
			}
			if result.Answer != inbox.InProgress {
				acknowledge = append(acknowledge, key)
			}
		}
		return acknowledge, tx.Commit()
	}
	_ = consume
}

// Purge keeps the table small if no reaper is given the inbox's table.
func ExampleInbox_Purge() {
	everyHour := func(ctx context.Context, box *inbox.Inbox, pool *pgxpool.Pool) {
		for ctx.Err() == nil {
			purged, err := box.Purge(ctx, pool)
			log.Printf("stripped %d payloads, deleted %d tombstones: %v", purged.Stripped, purged.Tombstones, err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
		}
	}
	_ = everyHour
}

// The inbox's codec encodes values, and decodes them for the handler. It is JSON unless the options name another.
func ExampleMessage_value() {
	type Order struct{ ID int }
	receive := func(ctx context.Context, tx pgx.Tx, box *inbox.Inbox, id string, o Order) error {
		_, err := box.Receive(ctx, workqueue.Pgx(tx), inbox.Message{Consumer: "billing", Source: "shop", MessageID: id,
			Value: o})
		return err
	}
	work := func(pool *pgxpool.Pool, box *inbox.Inbox) *inbox.Worker {
		w, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "billing"})
		if err != nil {
			log.Fatal(err)
		}
		w.Handle("shop", codec.HandlerIn(func(ctx context.Context, tx pgx.Tx, _ *inbox.Delivery, o Order) error {
			_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", o.ID)
			return err
		}))
		return w
	}
	_, _ = receive, work
}
