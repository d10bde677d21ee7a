package alarms_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// An agent pauses a task. The record of its progress and the alarm that resumes the task commit together.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase()
	defer closePool()
	a, err := alarms.Open(alarms.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO tasks VALUES (7, 'paused')"); err != nil {
			return err
		}
		_, _, err := a.In(workqueue.Pgx(tx)).CreateAlarm(ctx, alarms.New{
			OwnerDID: "did:matrix:alice:01", UserID: "alice",
			Kind: alarms.KindOnce, Delay: 50 * time.Millisecond,
			WakeMessage: "Resume task 7.", Payload: []byte(`{"cursor": 240}`),
			IdempotencyKey: "task/7",
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	waker := alarms.WakerFunc(func(_ context.Context, w alarms.Wake) error {
		defer stop()
		fmt.Println(w.UserID, w.Message, string(w.Payload))
		return nil
	})
	d, err := alarms.NewDispatcher(pool, a, waker, alarms.DispatcherOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// alice Resume task 7. {"cursor": 240}
}

// exampleDatabase returns what the example needs: a pool, and a schema with the tables of alarms and a table of an
// application.
func exampleDatabase() (pool *pgxpool.Pool, schema string, closePool func()) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(exampleServer())
	check(err)
	schema = "example_" + strings.ToLower(rand.Text())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(ctx, config)
	check(err)
	timersUp, _, err := timers.DDL(schema)
	check(err)
	alarmsUp, _, err := alarms.DDL(schema)
	check(err)
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema+"; "+timersUp+"; "+alarmsUp+
		"; CREATE TABLE tasks (id int PRIMARY KEY, state text NOT NULL)")
	check(err)
	return pool, schema, func() {
		_, err := pool.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA "+schema+" CASCADE")
		check(err)
		pool.Close()
	}
}

// exampleServer returns the URL of the example's server, which ends with the process. Package pgtest cannot start it,
// because it needs a *testing.T.
var exampleServer = sync.OnceValue(func() string {
	if url := os.Getenv(localpg.DatabaseURLEnv); url != "" {
		return url
	}
	server, err := localpg.Start(context.Background(), localpg.Options{})
	check(err)
	return server.URL()
})

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
