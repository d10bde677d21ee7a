package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A message is written in the same transaction as the change that it reports, and delivered after the transaction has
// committed.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase() // with the tables of package migrations
	defer closePool()
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
			return err
		}
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed",
			Payload: []byte(`{"order": 7}`)})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	relay.Handle("order.placed", func(_ context.Context, m *outbox.Delivery) error {
		fmt.Printf("%s: %s\n", m.Topic, m.Payload)
		stop()
		return nil
	})
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order.placed: {"order": 7}
}

// A broker that is away makes the topic rest. Its messages keep their attempts, and are delivered when one of them
// finds the broker back.
func ExampleHandler_unavailable() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed",
			Payload: []byte(`{"order": 7}`)})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	connected := false
	relay.Handle("order.placed", func(_ context.Context, m *outbox.Delivery) error {
		if !connected {
			connected = true
			return workqueue.Unavailable(errors.New("no broker answers"))
		}
		fmt.Printf("attempt %d: %s\n", m.Attempt, m.Payload)
		stop()
		return nil
	})
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 1: {"order": 7}
}

// A handler of several messages returns a result for each. An error of the call would be about none of them: the relay
// would call the handler with halves to find the messages that fail.
func ExampleRelay_HandleBatch() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := box.EnqueueMany(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "index", Payload: []byte("a")},
			outbox.Message{Topic: "index"}, outbox.Message{Topic: "index", Payload: []byte("b")})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	relay.HandleBatch("index", workqueue.BatchOptions{Limit: 3, Linger: time.Second},
		func(_ context.Context, batch []*outbox.Delivery) ([]error, error) {
			results := make([]error, len(batch))
			for i, m := range batch {
				if len(m.Payload) == 0 {
					results[i] = workqueue.Permanent(errors.New("nothing to index"))
				}
			}
			fmt.Println(len(batch), "messages in one request, the second:", results[1])
			stop()
			return results, nil
		})
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 messages in one request, the second: permanent: nothing to index
}

// A log has each message once, and each subscription reads it. The schema needs the domain log of package migrations.
func ExampleStorage() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Domains: []migrations.Domain{migrations.Log},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.Up(ctx); err != nil {
		log.Fatal(err)
	}
	box, err := outbox.Open(outbox.Options{Schema: schema, Storage: outbox.Log, Ordering: outbox.PerKey})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
			return err
		}
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Key: "7"})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	// Programs of any language read it through the functions of the log.
	if _, err := pool.Exec(ctx, "CALL outbox_log_tick()"); err != nil {
		log.Fatal(err)
	}
	for _, subscription := range []string{"billing", "search"} {
		_, err := pool.Exec(ctx, "SELECT outbox_log_subscribe($1, start => '-infinity')", subscription)
		if err != nil {
			log.Fatal(err)
		}
		var topic, key string
		err = pool.QueryRow(ctx, "SELECT topic, key FROM outbox_log_fetch($1, $2, '1 minute', 10) WHERE entry = 'row'",
			subscription, uuid.New()).Scan(&topic, &key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(subscription, "gets", topic, key)
	}
	// Output:
	// billing gets order.placed 7
	// search gets order.placed 7
}

// The same with database/sql. A *sqlx.Tx is passed in the same way.
func ExampleOutbox_Enqueue_sql() {
	place := func(ctx context.Context, box *outbox.Outbox, db *sql.DB, order int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit this does nothing
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
			return err
		}
		_, err = box.Enqueue(ctx, workqueue.SQL(tx), outbox.Message{
			Topic:   "order.placed",
			Key:     fmt.Sprint(order),
			Payload: fmt.Appendf(nil, `{"order": %d}`, order),
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = place
}

// Of several messages with the same dedup key, only the first is written. Enqueue returns its id for the others.
func ExampleOutbox_Enqueue_deduplication() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}

	welcome := outbox.Message{Topic: "mail.welcome", DedupKey: "customer-7"}
	var ids []uuid.UUID
	for range 2 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			written, err := box.Enqueue(ctx, workqueue.Pgx(tx), welcome)
			ids = append(ids, written.ID)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("same message:", ids[0] == ids[1])
	// Output:
	// same message: true
}

// A call is validated as a whole before its first message is written.
func ExampleOutbox_EnqueueMany_refused() {
	ctx := context.Background()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := outbox.Open(outbox.Options{Schema: schema, MaxPayload: 10})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := box.EnqueueMany(ctx, workqueue.Pgx(tx),
			outbox.Message{Topic: "a", Payload: []byte("small")},
			outbox.Message{Topic: "a", Payload: []byte("rather large")},
		)
		return err
	})
	var refused *workqueue.ItemError
	if errors.As(err, &refused) {
		fmt.Println("index", refused.Index)
		fmt.Println(refused)
	}
	// Output:
	// index 1
	// txwork: message 2 of 2: payload has 12 bytes, it must have at most 10 bytes
}

// What a handler writes through Tx commits together with the settle of the message. Here the first attempt fails, and
// its writes are rolled back.
func ExampleDelivery_Tx() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	box, err := outbox.Open(outbox.Options{
		Schema: schema,
		Retry:  workqueue.Retry{Growth: workqueue.Constant, Base: 10 * time.Millisecond, Cap: 10 * time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}

	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	relay.Handle("payment.received", func(ctx context.Context, m *outbox.Delivery) error {
		if m.Attempt == 2 {
			defer stop()
		}
		return m.Tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + 25 WHERE id = $1", m.Key); err != nil {
				return err
			}
			if m.Attempt == 1 {
				return errors.New("the ledger is closed") // rolls the update back
			}
			return nil
		})
	})

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "payment.received", Key: "alice"})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
	var balance int
	if err := pool.QueryRow(context.Background(),
		"SELECT balance FROM accounts WHERE id = 'alice'").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)
	// Output:
	// balance: 25
}

// The outbox's codec encodes values, and decodes them for the handler. It is JSON unless the options name another.
func ExampleMessage_value() {
	type Order struct{ ID int }
	place := func(ctx context.Context, box *outbox.Outbox, tx pgx.Tx, o Order) error {
		_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Value: o})
		return err
	}
	handle := func(relay *outbox.Relay) {
		relay.Handle("order.placed", codec.Handler(func(_ context.Context, m *outbox.Delivery, o Order) error {
			fmt.Println(m.Topic, o.ID)
			return nil
		}))
	}
	_, _ = place, handle
}
