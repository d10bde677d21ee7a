// Package pgtest gives every test its own PostgreSQL schema.
//
// [New] creates a new schema and drops it when the test ends. All tests of a process share one private server (see
// package localpg), which the first of them starts and which ends with the process, so that no TestMain is needed. If
// TXWORK_DATABASE_URL is set, that server is used and none is started; its user must be allowed to create schemas, and
// processes and tests take turns, so that it has enough connections for all.
//
// Connections of a [DB] have the schema, and only that, as their search_path. [ExecModeEnv] and [PoolerEnv] change how
// the pools of every test reach the server. Everything here may be used by parallel tests. After a test's cleanup no
// goroutine of this package remains.
package pgtest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgschema"
)

// DB is one test's schema.
type DB = pgschema.DB

// Option changes how New works.
type Option func(*settings)

type settings struct {
	reuse         bool
	tables        string
	configurePool []func(*pgxpool.Config)
}

func collect(options []Option) (s settings) {
	for _, option := range options {
		option(&s)
	}
	return s
}

// WithPool lets configure change the configuration of the pool before it is created.
func WithPool(configure func(*pgxpool.Config)) Option {
	return func(s *settings) { s.configurePool = append(s.configurePool, configure) }
}

// Reused lets New return the schema of an earlier test, with the tables that its Define created: see
// [pgschema.NewReused].
func Reused(s *settings) { s.reuse = true }

// ReusedFor is Reused for packages whose tests define different tables: New returns the schema of a test with the same
// ones, of which the text says something.
func ReusedFor(tables string) Option {
	return func(s *settings) { s.reuse, s.tables = true, tables }
}

// New creates a schema with a unique name. When the test ends, the pool is closed and the schema is dropped with
// everything in it.
func New(t testing.TB, options ...Option) *DB {
	t.Helper()
	if s := collect(options); s.reuse {
		return pgschema.NewReused(t, URL(t), s.tables, configured(t, options)...)
	}
	return pgschema.New(t, URL(t), configured(t, options)...)
}

// NewPool opens another pool on the schema of a test. It is closed when the test ends.
func NewPool(t testing.TB, db *DB, options ...Option) *pgxpool.Pool {
	t.Helper()
	return pgschema.NewPool(t, db.URL, append(configured(t, options), db.Watch)...)
}

// Direct is a pool on the schema of a test that connects to the server itself, in pgx's default mode. It is db.Pool
// unless the environment asks for another mode or a pooler.
func Direct(t testing.TB, db *DB, options ...Option) *pgxpool.Pool {
	t.Helper()
	if os.Getenv(ExecModeEnv) == "" && os.Getenv(PoolerEnv) == "" {
		return db.Pool
	}
	return pgschema.NewPool(t, db.URL, append(collect(options).configurePool, db.Watch)...)
}
