package lab

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/measure"
)

// A database is the database of one cell.
type database struct {
	url  string
	name string
	home *pgx.Conn // to another database, to create and drop this one
	conn *pgx.Conn
	dir  string // the server's data directory
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

// open creates the database and connects to it. The planner's statistics are from before a drain, when nearly all jobs
// were live. With them, the query that counts unfinished jobs would read the whole table although an index has the
// answer, so sequential scans are off.
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

// cleanupLimit bounds the cleanup, which also happens after an interruption.
const cleanupLimit = 20 * time.Second

// drop removes the database. If that fails, the database is removed with the server.
func (d *database) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
	_, _ = d.home.Exec(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
	_ = d.home.Close(ctx)
}

// settle brings the database into the state in which every measurement begins.
func (d *database) settle(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}
	_, err := d.conn.Exec(ctx, "CHECKPOINT")
	return err
}

// counters reads the server's counters.
func (d *database) counters(ctx context.Context) (measure.Counters, error) {
	return measure.Read(ctx, d.conn, d.dir)
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

// donePoll is how often the database is asked whether all jobs are done.
const donePoll = 5 * time.Millisecond

// awaitNone waits until the count is 0, and returns the time when the last query was sent, because a statement sees
// what was committed at its start.
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
