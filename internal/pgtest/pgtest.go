// Package pgtest gives every test a PostgreSQL schema of its own.
//
// [New] creates a fresh schema and drops it when the test ends. All tests of a
// process share one private server (see package localpg), which the first of
// them starts and which ends with the process, so that no TestMain is needed.
// When TXWORK_DATABASE_URL is set, that server is used and none is started; its
// user must be allowed to create schemas.
//
// Connections of a [DB] have the schema, and only that, as their search_path. [ExecModeEnv] and [PoolerEnv] lead the
// pools of every test to the server in another way.
// Everything here may be used by parallel tests. After a test's cleanup no
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

// Option changes what New does.
type Option func(*settings)

type settings struct {
	configurePool []func(*pgxpool.Config)
}

func collect(options []Option) (s settings) {
	for _, option := range options {
		option(&s)
	}
	return s
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
	return pgschema.New(t, URL(t), configured(t, options)...)
}

// NewPool opens another pool on the schema of a test, which is closed when the test ends.
func NewPool(t testing.TB, db *DB, options ...Option) *pgxpool.Pool {
	t.Helper()
	return pgschema.NewPool(t, db.URL, configured(t, options)...)
}

// Direct is a pool on the schema of a test that reaches the server itself, in pgx's own mode. It is db.Pool where the
// environment asks for nothing else.
func Direct(t testing.TB, db *DB, options ...Option) *pgxpool.Pool {
	t.Helper()
	if os.Getenv(ExecModeEnv) == "" && os.Getenv(PoolerEnv) == "" {
		return db.Pool
	}
	return pgschema.NewPool(t, db.URL, collect(options).configurePool...)
}

// URL returns the URL of the server that the tests of this process share. The
// search_path is the server's default there: tests that use the URL directly
// must not leave anything behind.
func URL(t testing.TB) string {
	t.Helper()
	return pgschema.Server(t)
}
