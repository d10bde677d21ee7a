// Command shop is an HTTP service to which the guide docs/add-an-outbox.md adds an outbox. `shop migrate` applies the
// migrations of its folder, and `shop serve` takes orders and delivers a message for each to BILLING_URL.
package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
)

//go:embed db/migrations
var files embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, stop, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, stop func(), args []string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	switch {
	case len(args) == 1 && args[0] == "migrate":
		return migrate(ctx, pool)
	case len(args) == 1 && args[0] == "serve":
		return serve(ctx, stop, pool)
	default:
		return errors.New("usage: shop migrate | shop serve")
	}
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	dir, err := fs.Sub(files, "db/migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// serve runs the server and the relay until ctx is cancelled. The probes are GET /readyz and /livez.
func serve(ctx context.Context, stop func(), pool *pgxpool.Pool) error {
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		return err
	}
	relay, err := newRelay(pool, box, os.Getenv("BILLING_URL"))
	if err != nil {
		return err
	}
	background, err := service.New(pool, service.Options{}, relay)
	if err != nil {
		return err
	}
	shop := &shop{pool: pool, box: box}
	go http.ListenAndServe(cmp.Or(os.Getenv("PROBES_ADDR"), "127.0.0.1:8081"), background.Handler())
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"), Handler: shop.routes()}
	served := make(chan error, 1)
	go func() {
		served <- server.ListenAndServe()
		stop() // if the server cannot listen, the relay stops, too
	}()
	err = background.Run(ctx) // until the signal, and until running deliveries have finished
	deadline, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(deadline)) // waits for requests in progress
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
