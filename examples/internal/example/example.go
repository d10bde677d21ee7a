// Package example is what the examples share: a database, services that run until the work is done, and the
// books at the end. An application has its own of each, so nothing here needs to be copied.
package example

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/examples/internal/database"
	"github.com/txwork/txwork/migrations"
)

// patience is far more than any example takes.
const patience = time.Minute

// Main runs an example with a database, until it returns, it takes too long, or somebody interrupts it.
func Main(run func(ctx context.Context, pool *pgxpool.Pool) error) {
	slog.SetLogLoggerLevel(slog.LevelError) // the failures are on purpose
	if err := withDatabase(run); err != nil {
		log.Fatal(err)
	}
}

func withDatabase(run func(ctx context.Context, pool *pgxpool.Pool) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pool, closeDatabase, err := database.Open(ctx)
	if err != nil {
		return err
	}
	defer closeDatabase()
	return run(ctx, pool)
}

// Fresh makes a schema anew, with txwork's tables and with those of the application. An application runs its
// migrations instead, and drops nothing.
func Fresh(ctx context.Context, pool *pgxpool.Pool, schema, tables string) error {
	if _, err := pool.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`); err != nil {
		return err
	}
	migrator, err := migrations.New(pool, migrations.Options{Schema: schema})
	if err != nil {
		return err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, tables)
	return err
}

// Serve runs services side by side while do does its part, and then stops them. An application's services
// run until its process is told to end.
func Serve(ctx context.Context, do func(ctx context.Context) error, services ...func(ctx context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	for _, service := range services {
		group.Go(func() error { return service(running) })
	}
	group.Go(func() error {
		defer stop()
		return do(ctx)
	})
	return group.Wait()
}

// Until waits for a query to be true; NULL is not yet. Nothing in txwork needs that: it is how an example knows its
// end.
func Until(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) error {
	for {
		var done *bool
		if err := pool.QueryRow(ctx, query, args...).Scan(&done); err != nil {
			return fmt.Errorf("waiting for %s: %w", query, err)
		}
		if done != nil && *done {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
