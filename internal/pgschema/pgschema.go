// Package pgschema creates schemas that last for one test. It is the common part of package pgtest, for txwork's own
// tests, and package txworktest, for those of its users.
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
	"sync/atomic"
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
	maxSpare     = 6                // idle sessions that are kept for the next schema
	setupLimit   = 30 * time.Second // for each statement that this package runs itself
	releaseLimit = 10 * time.Second // for connections that are still in use when a test ends
)

// A DB is one test's schema.
type DB struct {
	Pool   *pgxpool.Pool // closed when the test ends
	Schema string        // needs no quoting
	URL    string        // connects to the schema, from other processes too

	server   string    // connects without the schema
	reusable *reusable // nil if no later test gets the schema
}

// New creates a schema with a unique name on a server, and a pool of at most 8 connections unless configure changes
// that. When the test ends, the pool is closed and the schema is dropped with everything in it.
func New(t testing.TB, server string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	schema := create(t, server)
	t.Cleanup(func() { drop(t, server, schema) })
	return open(t, server, schema, configure...)
}

// create creates a schema with a unique name.
func create(t testing.TB, server string) (schema string) {
	t.Helper()
	schema = "t_" + strings.ToLower(rand.Text())
	must(t, server, "CREATE SCHEMA "+schema)
	return schema
}

// open opens a pool on a schema.
func open(t testing.TB, server, schema string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	url, err := withSearchPath(server, schema)
	if err != nil {
		t.Fatalf("test schema: %v", err)
	}
	return &DB{Pool: NewPool(t, url, configure...), Schema: schema, URL: url, server: server}
}

// Define runs statements such as CREATE TABLE in one transaction, with the schema as its search_path. It reuses a
// session of earlier tests, because a new one would first have to read half the catalogs.
func (db *DB) Define(t testing.TB, statements string) {
	t.Helper()
	var err error
	if db.reusable != nil {
		err = db.reusable.define(t, db.server, statements)
	} else {
		err = run(db.server, db.Schema, statements)
	}
	if err != nil {
		t.Fatalf("test schema: %v", err)
	}
}

// run runs statements in one transaction with a schema as its search_path.
func run(server, schema, statements string) error {
	return execute(server, "SET LOCAL search_path = "+schema+";\n"+statements)
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

// serverURL starts the private server once. The server needs no stop: its supervisor stops it when the process ends.
var serverURL = sync.OnceValues(func() (string, error) {
	if url := os.Getenv(localpg.DatabaseURLEnv); url != "" {
		return url, nil
	}
	// PostgreSQL overestimates queries of tables without statistics, such as those of tests, and would compile them.
	server, err := localpg.Start(context.Background(), localpg.Options{Settings: map[string]string{"jit": "off"}})
	if err != nil {
		return "", err
	}
	url := server.URL()
	privateURL.Store(&url)
	return url, nil
})

// privateURL is nil unless this process has started a server.
var privateURL atomic.Pointer[string]

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

// closePool fails the test if it has kept a connection, for which Close alone would silently wait forever.
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

// maxDeadlocks is how many sessions of ended processes may block the drop of one schema.
const maxDeadlocks = 5

// drop drops a schema. A statement of a process that a test has killed still runs on the server for a while, and can
// deadlock with the drop.
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

// must runs a statement of this package.
func must(t testing.TB, server, statement string) {
	t.Helper()
	if err := execute(server, statement); err != nil {
		t.Fatalf("test schema: %s: %v", statement, err)
	}
}

// spare are idle sessions, by URL: every test creates and drops a schema, and starting a session costs as much as
// either.
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

// execute runs statements in a session that has no schema.
func execute(url, statements string) error {
	return inSession(url, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statements)
		return err
	})
}

// inSession lends a spare session, or a new one that becomes spare afterwards. A session in which something failed is
// closed.
func inSession(url string, use func(context.Context, *pgx.Conn) error) error {
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
	if err := use(ctx, conn); err != nil {
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
	slowWrite = 15 * time.Millisecond // a write that takes longer makes pgx read in a goroutine meanwhile
	maxSlow   = 3
)

// endReader ends the goroutine that pgx may have started during a call that took so long. If the answer arrived before
// the write was over, that goroutine keeps reading until the next answer of the server, and would look like a leak of
// the test. On a machine that is so slow that every call may start one, endReader gives up.
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

const sessionName = "test schemas"

// connect opens a session with a lock timeout: an open transaction in a schema that is to be dropped is a mistake of
// the test.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = sessionName
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// CASCADE would list everything that it drops.
	if _, err = conn.Exec(ctx, "SET lock_timeout = '10s'; SET client_min_messages = warning"); err != nil {
		_ = conn.Close(ctx)
	}
	return conn, err
}

// Execute runs statements on a new connection.
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
