// Package pgtest gives every test a PostgreSQL schema of its own.
//
// [New] creates a fresh schema and drops it when the test ends. All tests of a
// process share one private server (see package localpg), which the first of
// them starts and which ends with the process, so that no TestMain is needed.
// When TXWORK_DATABASE_URL is set, that server is used and none is started; its
// user must be allowed to create schemas.
//
// Connections of a [DB] have the schema, and only that, as their search_path.
// Everything here may be used by parallel tests. After a test's cleanup no
// goroutine of this package remains.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txwork/txwork/internal/localpg"
)

const (
	maxConns     = 8                // of one pool; the private server allows 200
	setupLimit   = 30 * time.Second // for each statement this package runs itself
	releaseLimit = 10 * time.Second // for connections still in use when a test ends
)

// DB is one test's schema.
type DB struct {
	Pool   *pgxpool.Pool // at most 8 connections; closed when the test ends
	Schema string        // needs no quoting
	URL    string        // connects to the schema, from other processes too
}

// Option changes what New does.
type Option func(*settings)

type settings struct {
	configurePool []func(*pgxpool.Config)
}

// WithPool has configure change the pool's configuration before the pool is
// made.
func WithPool(configure func(*pgxpool.Config)) Option {
	return func(s *settings) { s.configurePool = append(s.configurePool, configure) }
}

// New creates a schema with a name no other has. When the test ends, the pool
// is closed and the schema dropped with all that is in it.
func New(t testing.TB, options ...Option) *DB {
	t.Helper()
	var s settings
	for _, option := range options {
		option(&s)
	}
	server := URL(t)
	schema := "t_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { drop(t, server, schema) })

	url, err := withSearchPath(server, schema)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return &DB{Pool: newPool(t, url, s), Schema: schema, URL: url}
}

// SQL returns a database/sql handle on the schema, through pgx. It is closed
// when the test ends.
func (db *DB) SQL(t testing.TB) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	handle := stdlib.OpenDB(*config)
	handle.SetMaxOpenConns(maxConns)
	t.Cleanup(func() {
		if err := handle.Close(); err != nil {
			t.Errorf("pgtest: close: %v", err)
		}
	})
	return handle
}

// URL returns the URL of the server that the tests of this process share. The
// search_path is the server's default there: tests that use the URL directly
// must not leave anything behind.
func URL(t testing.TB) string {
	t.Helper()
	url, err := serverURL()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
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

func newPool(t testing.TB, url string, s settings) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.MaxConns = maxConns
	for _, configure := range s.configurePool {
		configure(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
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
		t.Errorf("pgtest: the test ended but %d connections of its pool are still in use: release them, close the rows, end the transactions",
			pool.Stat().AcquiredConns())
	}
}

// drop does not wait for locks without end: an open transaction in a schema
// that is to go is a mistake of the test.
func drop(t testing.TB, server, schema string) {
	t.Helper()
	execute(t, server,
		"SET lock_timeout = '10s'",
		"SET client_min_messages = warning", // CASCADE lists what it drops
		"DROP SCHEMA "+schema+" CASCADE")
}

// execute runs statements on a connection of its own.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("pgtest: %s: %v", statement, err)
		}
	}
}
