// Release is a program with the library of one release. It migrates, or it writes and delivers messages until it is
// told to stop. What it logs goes to the standard error.
//
//	release up VERSION    migrate up to a version, 0 for the newest
//	release down VERSION  migrate down to a version
//	release counts N      print what migrate down to a version would lose
//	release validate      compare the schema
//	release run NAME      write messages and parcels, and process them
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("TXWORK_EVOLVE_SCHEMA"), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, schema, command, arg string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("TXWORK_EVOLVE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if command == "run" {
		return work(ctx, pool, schema, arg)
	}
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Domains: []migrations.Domain{migrations.Outbox}})
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return err
	}
	switch command {
	case "up":
		if version == 0 {
			_, err = m.Up(ctx)
		} else {
			_, err = m.UpTo(ctx, version)
		}
	case "down":
		_, err = m.DownTo(ctx, version)
	case "counts":
		rows, err := m.RowsAbove(ctx, version)
		for _, r := range rows {
			fmt.Printf("%s.%s %d\n", r.Table, r.Column, r.Rows)
		}
		return err
	case "validate":
		err = m.Validate(ctx)
	default:
		err = errors.New("unknown command " + command)
	}
	return err
}

// parcels is the table of an application's own, which no release of the library migrates.
func parcels(schema string) (*workqueue.Table, error) {
	return workqueue.Open(workqueue.Spec{Schema: schema, Table: "parcels"}, workqueue.Telemetry{})
}

func work(ctx context.Context, pool *pgxpool.Pool, schema, name string) error {
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 4}})
	if err != nil {
		return err
	}
	relay.HandleAll(func(ctx context.Context, d *outbox.Delivery) error {
		_, err := pool.Exec(ctx, "INSERT INTO "+schema+".delivered (id, name) VALUES ($1, $2)", d.ID, name)
		return err
	})
	own, err := parcels(schema)
	if err != nil {
		return err
	}
	if err := own.CheckVersion(ctx, pool); err != nil {
		return err
	}
	s, err := service.New(pool, service.Options{Tables: []*workqueue.Table{own}}, relay)
	if err != nil {
		return err
	}
	loaded := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		loaded <- load(ctx, pool, box, own)
	}()
	err = s.Run(ctx)
	cancel()
	return errors.Join(err, <-loaded)
}

// load writes messages, and processes parcels, until ctx ends.
func load(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, own *workqueue.Table) error {
	whole := context.WithoutCancel(ctx) // what has begun ends
	for ctx.Err() == nil {
		err := pgx.BeginFunc(whole, pool, func(tx pgx.Tx) error {
			_, err := box.Enqueue(whole, workqueue.Pgx(tx), outbox.Message{Topic: "evolve", Payload: []byte("x")})
			return err
		})
		if err != nil {
			return fmt.Errorf("writing a message: %w", err)
		}
		if _, err := pool.Exec(whole, "INSERT INTO "+own.Name()+" DEFAULT VALUES"); err != nil {
			return err
		}
		owner := workqueue.NewOwnerToken()
		rows, err := own.On(pool).Claim(whole, owner, time.Minute, 10)
		for _, row := range rows {
			if _, err := own.On(pool).Ack(whole, owner, []uuid.UUID{row.ID}); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	slog.Info("stopped")
	return nil
}
