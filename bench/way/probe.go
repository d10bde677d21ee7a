package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// probeCommand is the argument with which this program runs one worker instead.
const probeCommand = "probe"

// A way is an item and the worker that it is for.
type way struct {
	name    string
	item    string
	migrate func(ctx context.Context, pool *pgxpool.Pool) error
	// open returns functions that run a worker until ctx ends, and that enqueue one item. The worker calls done once
	// the item has been handled for the last time.
	open func(pool *pgxpool.Pool, done func()) (work, enqueue func(context.Context) error, err error)
	// finished is a query that returns true once the item's row is done.
	finished string
}

// quiet discards logs, as an application does that wants none.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// prepare creates a database with the tables of a way, and returns its URL.
func prepare(ctx context.Context, server, name string, w way) (string, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	pool, err := pgxpool.New(ctx, u.String())
	if err != nil {
		return "", err
	}
	defer pool.Close()
	return u.String(), w.migrate(ctx, pool)
}

// probe is run by this program itself: the way's name, the URL, how long the worker runs, and whether there is an item.
func probe(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("%s has %d arguments, it is for %s itself", probeCommand, len(args)-1, "way")
	}
	stay, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	item, err := strconv.ParseBool(args[4])
	if err != nil {
		return err
	}
	for _, w := range ways {
		if w.name == args[1] {
			return w.run(ctx, args[2], item, stay/4, func(func() bool) { time.Sleep(stay * 3 / 4) })
		}
	}
	return fmt.Errorf("there is no way %q", args[1])
}

// run runs a worker. After a while it enqueues the item, and then waits; wait gets a function that tells whether the
// item's row is done.
func (w way) run(ctx context.Context, url string, item bool, idle time.Duration, wait func(func() bool)) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	handled := make(chan struct{})
	work, enqueue, err := w.open(pool, func() { close(handled) })
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- work(working) }()
	time.Sleep(idle)
	if item {
		if err := enqueue(ctx); err != nil {
			return err
		}
	}
	finished := func() (done bool) {
		err := pool.QueryRow(ctx, w.finished).Scan(&done)
		return err == nil && done
	}
	wait(finished)
	stop()
	if err := <-ended; err != nil || !item {
		return err
	}
	select {
	case <-handled:
	default:
		return errors.New("the worker ended before it had handled the item: --stay gives it longer")
	}
	if !finished() {
		return errors.New("the item was handled, and its row is not done")
	}
	return nil
}
