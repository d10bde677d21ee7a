package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A maintenance process for all tables of an application. Run as many of it as you like.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	invoices, err := workqueue.Open(workqueue.Spec{Table: "invoices", Retention: 30 * 24 * time.Hour},
		workqueue.Telemetry{})
	if err != nil {
		log.Fatal(err)
	}
	if err := reaper.Run(ctx, pool, []*workqueue.Table{invoices}, reaper.Options{}); err != nil {
		log.Fatal(err)
	}
}

// One round, as from cron.
func ExampleRunOnce() {
	ctx := context.Background()
	pool, table, end := exampleDatabase()
	defer end()

	// A worker has claimed a row and died; its lease has expired.
	_, err := pool.Exec(ctx, `INSERT INTO txwork.invoices (status, attempts, owner_token, locked_until)
		VALUES (1, 1, gen_random_uuid(), now() - interval '1 second')`)
	if err != nil {
		log.Fatal(err)
	}

	report, err := reaper.RunOnce(ctx, pool, []*workqueue.Table{table}, reaper.Options{})
	if err != nil {
		log.Fatal(err)
	}
	counts, err := json.Marshal(report.Total())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("leader %t, term %d: %s\n", report.Leader(), report.Tables[0].Term, counts)
	// Output: leader true, term 1: {"requeued":1,"failed":0,"purged_done":0,"purged_failed":0,"swept":0}
}

func ExampleOptions_Validate() {
	err := reaper.Options{Interval: time.Minute, Lease: 30 * time.Second}.Validate()
	fmt.Println(errors.Is(err, workqueue.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// txwork: lease is 30s, it must be longer than the interval of 1m0s: leadership would end between rounds
}

// exampleDatabase starts a server and creates a table of an application, and the leader table of txwork's migrations.
func exampleDatabase() (*pgxpool.Pool, *workqueue.Table, func()) {
	server, err := localpg.Start(context.Background(), localpg.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), server.URL())
	if err != nil {
		log.Fatal(err)
	}
	spec := workqueue.Spec{Table: "invoices"}
	up, _, err := spec.DDL()
	if err != nil {
		log.Fatal(err)
	}
	_, err = pool.Exec(context.Background(), `CREATE SCHEMA txwork;
		CREATE TABLE txwork.leader (name text PRIMARY KEY, term bigint NOT NULL, holder uuid NOT NULL, expires_at timestamptz NOT NULL, granted_at timestamptz NOT NULL, problem text);`+
		up, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		log.Fatal(err)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		log.Fatal(err)
	}
	return pool, table, func() {
		pool.Close()
		if err := server.Stop(); err != nil {
			log.Fatal(err)
		}
	}
}
