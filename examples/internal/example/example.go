// Package example has what the examples share: it connects to a database, runs services until the work is done, and
// checks the results at the end. Nothing here needs to be copied, because an application has its own code for this.
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

// patience is longer than any example takes.
const patience = time.Minute

// Main runs an example with a database. It cancels the context if the example takes too long or the user interrupts it.
func Main(run func(ctx context.Context, pool *pgxpool.Pool) error) {
	slog.SetLogLoggerLevel(slog.LevelError) // hide warnings: the examples fail some attempts on purpose
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

// Fresh drops and recreates a schema, with txwork's tables and those of the application. A real application runs its
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

// Serve runs services concurrently until do returns, and then stops them. The services of a real application run until
// its process is stopped.
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

// Until waits until a query returns true; NULL counts as false. Txwork does not need this: an example uses it to know
// when its work is done.
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
