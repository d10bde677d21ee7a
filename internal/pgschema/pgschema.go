// Package pgschema makes schemas that last for a test. It is what package pgtest, for txwork's own tests, and
// package txworktest, for those of its users, have in common.
//
// Everything here may be used by parallel tests. After a test's cleanup no goroutine of this package remains.
package pgschema

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txwork/txwork/internal/localpg"
)

const (
	maxConns     = 8                // of one pool; the private server allows 200
	maxSpare     = 6                // sessions that wait for the next schema
	setupLimit   = 30 * time.Second // for each statement this package runs itself
	releaseLimit = 10 * time.Second // for connections still in use when a test ends
)

// A DB is one test's schema.
type DB struct {
	Pool   *pgxpool.Pool // closed when the test ends
	Schema string        // needs no quoting
	URL    string        // connects to the schema, from other processes too

	server string // connects without the schema
}

// New creates a schema on a server, with a name no other has, and a pool of at most 8 connections unless
// configure says otherwise. When the test ends, the pool is closed and the schema dropped with all that is in it.
func New(t testing.TB, server string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	schema := "t_" + strings.ToLower(rand.Text())
	must(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { drop(t, server, schema) })

	url, err := withSearchPath(server, schema)
	if err != nil {
		t.Fatalf("test schema: %v", err)
	}
	return &DB{Pool: NewPool(t, url, configure...), Schema: schema, URL: url, server: server}
}

// Define runs statements that make tables and the like, as one transaction with the schema as its search_path. They run
// in a session that did the same for other tests: a new one would read half the catalogs first.
func (db *DB) Define(t testing.TB, statements string) {
	t.Helper()
	if err := execute(db.server, "SET LOCAL search_path = "+db.Schema+";\n"+statements); err != nil {
		t.Fatalf("test schema: %v", err)
	}
}

// SQL returns a database/sql handle on the schema, through pgx, whose connections are like those of the pool. It is
// closed when the test ends.
func (db *DB) SQL(t testing.TB) *sql.DB {
	t.Helper()
	handle := stdlib.OpenDB(*db.Pool.Config().ConnConfig)
	handle.SetMaxOpenConns(maxConns)
	t.Cleanup(func() {
		if err := handle.Close(); err != nil {
			t.Errorf("test schema: close: %v", err)
		}
	})
	return handle
}

// Server returns the URL of the server that the tests of this process share: that of the environment variable
// TXWORK_DATABASE_URL, or else a private one, which the first call starts and which ends with the process.
func Server(t testing.TB) string {
	t.Helper()
	url, err := serverURL()
	if err != nil {
		t.Fatalf("test server: %v", err)
	}
	return url
}

// serverURL starts the private server once. Nobody stops it: that is the
// supervisor's work when the process ends.
var serverURL = sync.OnceValues(func() (string, error) {
	if url := os.Getenv(localpg.DatabaseURLEnv); url != "" {
		return url, nil
	}
	server, err := localpg.Start(context.Background(), localpg.Options{})
	if err != nil {
		return "", err
	}
	return server.URL(), nil
})

// NewPool opens a pool that is closed when the test ends.
func NewPool(t testing.TB, url string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("test schema: %v", err)
	}
	config.MaxConns = maxConns
	for _, change := range configure {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("test schema: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// closePool fails the test when it kept a connection, for which Close alone
// would wait without end and without a word.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(releaseLimit):
		t.Errorf("test schema: the test ended but %d connections of its pool are still in use: release them, close "+
			"the rows, end the transactions",
			pool.Stat().AcquiredConns())
	}
}

// maxDeadlocks is how many sessions of ended processes may be in the way of one schema's end.
const maxDeadlocks = 5

// drop drops a schema. The statement of a process that a test has killed goes on at the server for a while, and can
// wait for a lock of the drop while the drop waits for its own.
func drop(t testing.TB, server, schema string) {
	t.Helper()
	statement := "DROP SCHEMA " + schema + " CASCADE"
	err := execute(server, statement)
	for n := 0; n < maxDeadlocks && deadlocked(err); n++ {
		err = execute(server, statement)
	}
	if err != nil {
		t.Fatalf("test schema: %s: %v", statement, err)
	}
}

func deadlocked(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "40P01"
}

// must runs a statement of this package's own.
func must(t testing.TB, server, statement string) {
	t.Helper()
	if err := execute(server, statement); err != nil {
		t.Fatalf("test schema: %s: %v", statement, err)
	}
}

// spare are sessions in which nothing runs, by URL: every test makes a schema
// and drops it, and starting a session costs as much as either.
var spare = struct {
	sync.Mutex
	conns map[string][]*pgx.Conn
}{conns: map[string][]*pgx.Conn{}}

func takeSpare(url string) *pgx.Conn {
	spare.Lock()
	defer spare.Unlock()
	conns := spare.conns[url]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	spare.conns[url] = conns[:last]
	return conns[last]
}

func giveSpare(ctx context.Context, url string, conn *pgx.Conn) {
	spare.Lock()
	defer spare.Unlock()
	if len(spare.conns[url]) == maxSpare {
		_ = conn.Close(ctx)
		return
	}
	spare.conns[url] = append(spare.conns[url], conn)
}

// execute runs statements in a spare session, or in one that is spare afterwards.
func execute(url, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	conn := takeSpare(url)
	if conn == nil || conn.Ping(ctx) != nil {
		var err error
		if conn, err = connect(ctx, url); err != nil {
			return err
		}
	}
	start := time.Now()
	if _, err := conn.Exec(ctx, statements); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	if !endReader(ctx, conn, time.Since(start)) {
		return conn.Close(ctx)
	}
	giveSpare(ctx, url, conn)
	return nil
}

const (
	slowWrite = 15 * time.Millisecond // from when on pgx reads in a goroutine while it writes
	maxSlow   = 3
)

// endReader ends the goroutine in which pgx may read since a call that took so long: one that had the answer before the
// write was over reads on until the server's next answer, and would look like a leak of the test. On a machine so slow
// that one may always have begun, it gives up.
func endReader(ctx context.Context, conn *pgx.Conn, took time.Duration) bool {
	for range maxSlow {
		if took < slowWrite {
			return true
		}
		start := time.Now()
		if conn.Ping(ctx) != nil {
			return false
		}
		took = time.Since(start)
	}
	return false
}

// connect opens a session that does not wait for locks without end: an open transaction in a schema
// that is to go is a mistake of the test.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// CASCADE lists what it drops.
	if _, err = conn.Exec(ctx, "SET lock_timeout = '10s'; SET client_min_messages = warning"); err != nil {
		_ = conn.Close(ctx)
	}
	return conn, err
}

// Execute runs statements on a connection of its own.
func Execute(t testing.TB, config *pgx.ConnConfig, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatalf("test schema: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("test schema: %s: %v", statement, err)
		}
	}
}
