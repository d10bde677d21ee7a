package lab

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
)

// A database is that of one cell.
type database struct {
	url  string
	name string
	home *pgx.Conn // to another database, from which it is made and dropped
	conn *pgx.Conn
	dir  string // of the server
}

// create makes an empty database.
func (l *Lab) create(ctx context.Context) (*database, error) {
	l.count++
	d := &database{name: fmt.Sprintf("cell_%d", l.count), dir: l.server.Dir()}
	u, err := url.Parse(l.server.URL())
	if err != nil {
		return nil, err
	}
	u.Path = "/" + d.name
	d.url = u.String()
	if d.home, err = pgx.Connect(ctx, l.server.URL()); err != nil {
		return nil, err
	}
	if err = d.open(ctx); err != nil {
		d.drop(ctx)
	}
	return d, err
}

// open makes the database and connects to it. The planner's figures are from before a drain, when next to all jobs were
// live; so the connection that asks whether any is left would read the whole table where an index has the answer.
func (d *database) open(ctx context.Context) (err error) {
	if _, err = d.home.Exec(ctx, "CREATE DATABASE "+d.name); err != nil {
		return err
	}
	if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
		return err
	}
	_, err = d.conn.Exec(ctx, "SET enable_seqscan = off")
	return err
}

// cleanupLimit bounds what happens after an interruption.
const cleanupLimit = 20 * time.Second

// drop removes the database. What remains goes with the server.
func (d *database) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
	_, _ = d.home.Exec(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
	_ = d.home.Close(ctx)
}

// settle leaves the database as every measurement finds it.
func (d *database) settle(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}
	_, err := d.conn.Exec(ctx, "CHECKPOINT")
	return err
}

// expect fails unless the count is n.
func (d *database) expect(ctx context.Context, countSQL string, n int) error {
	got, err := d.count(ctx, countSQL)
	if err == nil && got != n {
		err = fmt.Errorf("%d jobs are there, want %d (%s)", got, n, countSQL)
	}
	return err
}

func (d *database) count(ctx context.Context, countSQL string) (n int, err error) {
	err = d.conn.QueryRow(ctx, countSQL).Scan(&n)
	return n, err
}

// donePoll is how often the database is asked whether all is done.
const donePoll = 5 * time.Millisecond

// awaitNone waits until the count is 0, and returns when that was: a statement sees what was committed at its start.
func (d *database) awaitNone(ctx context.Context, countSQL string) (time.Time, error) {
	for {
		asked := time.Now()
		n, err := d.count(ctx, countSQL)
		if n == 0 || err != nil {
			return asked, err
		}
		select {
		case <-time.After(donePoll):
		case <-ctx.Done():
			return asked, fmt.Errorf("%d jobs are not done: %w", n, context.Cause(ctx))
		}
	}
}
