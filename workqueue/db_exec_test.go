package workqueue_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// strict makes every session of a pool start its transactions SERIALIZABLE.
func strict(config *pgxpool.Config) {
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
}

func TestInTx(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.WithPool(strict))
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE notes (level text)"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	for name, c := range map[string]struct {
		end  func() error
		want error
	}{
		"commits":      {end: func() error { return nil }},
		"rolls back":   {end: func() error { return refused }, want: refused},
		"as on panics": {end: func() error { panic("oh") }},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { _ = recover() }()
			err := workqueue.InTx(t.Context(), db.Pool, func(tx workqueue.Tx) error {
				if _, err := tx.Exec(t.Context(),
					"INSERT INTO notes VALUES (current_setting('transaction_isolation'))"); err != nil {
					return err
				}
				return c.end()
			})
			if !errors.Is(err, c.want) {
				t.Errorf("got the error %v, want %v", err, c.want)
			}
		})
	}
	var kept string
	if err := db.Pool.QueryRow(t.Context(), "SELECT string_agg(level, ', ') FROM notes").Scan(&kept); err != nil ||
		kept != "read committed" {
		t.Errorf("the transactions that committed were %q, %v", kept, err)
	}
	if err := workqueue.InTx(t.Context(), nil, func(workqueue.Tx) error { return nil }); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("without a pool: got the error %v", err)
	}
}

// InTx sends in its transaction what its caller would send, in fewer round trips.
func TestInTxBeginsWithTheFirstStatement(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	db := pgtest.New(t, pgtest.WithPool(func(config *pgxpool.Config) {
		config.MaxConns = 1
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return counted{conn, &sent}, err
		}
	}))
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE notes (n int)"); err != nil {
		t.Fatal(err)
	}
	exec := func(n int) func(workqueue.Tx) error {
		return func(tx workqueue.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO notes VALUES ($1)", n)
			return err
		}
	}
	query := func(tx workqueue.Tx) error {
		return tx.Query(t.Context(), func(scan func(...any) error) error {
			var n int
			return scan(&n)
		}, "SELECT n FROM notes WHERE n > $1", 0)
	}
	several := func(tx workqueue.Tx) error { // only the simple protocol accepts several statements
		_, err := tx.Exec(t.Context(), "INSERT INTO notes VALUES (3); INSERT INTO notes VALUES (4)")
		return err
	}
	swallowed := func(tx workqueue.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO notes VALUES (1 / $1::int)", 0)
		if err == nil {
			t.Error("a division by zero was no error")
		}
		return nil
	}
	const unknown = -1 // pgx prepares a failed statement again
	var kept workqueue.Tx
	for _, c := range []struct {
		name  string
		fn    func(workqueue.Tx) error
		trips int64
		want  error
	}{
		{"nothing", func(tx workqueue.Tx) error { kept = tx; return nil }, 0, nil},
		{"one statement", exec(1), 2, nil},
		{"two statements", func(tx workqueue.Tx) error { return errors.Join(exec(1)(tx), exec(2)(tx)) }, 3, nil},
		{"a query", query, 2, nil},
		{"no arguments", several, 3, nil},
		{"a failed transaction", swallowed, unknown, pgx.ErrTxCommitRollback},
		{"after its end", func(workqueue.Tx) error { return exec(5)(kept) }, 0, pgx.ErrTxClosed},
	} {
		run := func() error { return workqueue.InTx(t.Context(), db.Pool, c.fn) }
		_ = run() // prepares the statements
		before := sent.Load()
		if err := run(); !errors.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want %v", c.name, err, c.want)
		}
		if n := sent.Load() - before; c.trips != unknown && n != c.trips {
			t.Errorf("%s: %d round trips, want %d", c.name, n, c.trips)
		}
	}
	var rows string
	const all = "SELECT string_agg(n::text, ' ' ORDER BY n) FROM notes"
	if err := db.Pool.QueryRow(t.Context(), all).Scan(&rows); err != nil || rows != "1 1 1 1 2 2 3 3 4 4" {
		t.Errorf("the table has %s, %v", rows, err)
	}
}

// counted counts writes: pgx writes once for each round trip.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}
