package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// work runs the ticker and the consumer until it is stopped. It finishes the current batch first.
func work(ctx context.Context, c config) error {
	if c.Deleted {
		return errors.New("PgQ has no deleted mode: events stay until their table is rotated")
	}
	p, err := c.profile()
	if err != nil {
		return err
	}
	ctx, stop := untilClosed(ctx)
	defer stop()
	failed := make(chan error, 2)
	start := func(loop func(context.Context, config, profile) error) {
		go func() {
			err := loop(ctx, c, p)
			stop()
			failed <- err
		}()
	}
	start(runTicker)
	start(consume)
	return errors.Join(<-failed, <-failed)
}

func runTicker(ctx context.Context, c config, p profile) error {
	conn, err := pgx.Connect(context.WithoutCancel(ctx), c.DatabaseURL)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	for ctx.Err() == nil {
		if err := tick(context.WithoutCancel(ctx), conn); err != nil {
			return err
		}
		rest(ctx, p.interval)
	}
	return nil
}

func consume(ctx context.Context, c config, p profile) error {
	whole := context.WithoutCancel(ctx) // a batch that has begun is finished
	conn, err := pgx.Connect(whole, c.DatabaseURL)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err := say(map[string]any{"event": "started"}); err != nil {
		return err
	}
	count := counter(c.Jobs)
	var batch *int64
	for {
		if batch, err = nextBatch(whole, conn, batch); err != nil {
			return err
		}
		if batch == nil {
			rest(ctx, p.interval)
		} else if err := events(whole, conn, *batch, count); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return finish(whole, conn, batch)
		}
	}
}

// counter returns a handler that only counts, and prints an event when it has run for all jobs.
func counter(jobs int) func(string) {
	count := 0
	return func(string) {
		if count++; count == jobs {
			_ = say(map[string]any{"event": "handled", "jobs": count}) // if it fails, stdin ends, too
		}
	}
}

// finish acknowledges the last batch, if there is one.
func finish(ctx context.Context, conn *pgx.Conn, batch *int64) error {
	if batch == nil {
		return nil
	}
	_, err := conn.Exec(ctx, "SELECT pgq.finish_batch($1)", *batch)
	return err
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
