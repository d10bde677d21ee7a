package txworktest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/migrations"
)

// Server returns the URL of a PostgreSQL server for the tests of this process. It is the server that the environment
// variable TXWORK_DATABASE_URL names, whose user must be allowed to create schemas, or else a private server. The first
// call starts the private server, which takes about a second. All tests share it, and it ends with the process and
// leaves nothing behind. It needs PostgreSQL's binaries, installed or in the directory TXWORK_POSTGRES_BIN; if there
// are none, they are downloaded into the user's cache.
func Server(t testing.TB) string {
	t.Helper()
	return pgschema.Server(t)
}

// A DB is a schema with txwork's tables in it, for one test.
type DB struct {
	Pool   *pgxpool.Pool // at most 8 connections, closed when the test ends
	Schema string        // for outbox.Options.Schema and the like; needs no quoting
	URL    string        // connects to the schema, from other processes too

	test *pgschema.DB
}

// Schema creates a schema with a unique name and, with package migrations, txwork's tables in it. The search_path of
// the DB's connections is this schema alone, so an application's own tables can be created there, too. The schema is
// dropped when the test ends, or, on the private server of [Server] and if only rows have changed, emptied for a later
// test. Tests that each have a schema can run in parallel.
//
// The functions in configure change the pool's configuration before the pool is made.
func Schema(t testing.TB, url string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	test := pgschema.NewReused(t, url, "", configure...)
	text, err := migrations.SQL(migrations.FileOptions{Schema: test.Schema})
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	test.Define(t, text)
	return &DB{Pool: test.Pool, Schema: test.Schema, URL: test.URL, test: test}
}

// Begin opens a transaction that is rolled back when the test ends, unless the test has committed it or rolled it back.
// It uses one of the pool's connections until then.
func (db *DB) Begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatalf("txworktest: begin: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
		defer cancel()
		tx.Rollback(ctx) // after a commit this does nothing
	})
	return tx
}

// rollbackLimit bounds how long the end of a test waits if its connection hangs.
const rollbackLimit = 10 * time.Second

// SQL returns a database/sql handle for the schema, through pgx. It is closed when the test ends.
func (db *DB) SQL(t testing.TB) *sql.DB {
	t.Helper()
	return db.test.SQL(t)
}

// Exec runs statements in the schema, such as those that create an application's tables. Without arguments there may be
// several statements, which run in one transaction. It refuses the text of a goose file, because it would run both
// directions: use [DB.Migrate].
func (db *DB) Exec(t testing.TB, statements string, args ...any) {
	t.Helper()
	if gooseDown.MatchString(statements) {
		t.Fatalf("txworktest: the text is a goose file, whose Down would run after its Up: use DB.Migrate")
	}
	if _, err := db.Pool.Exec(t.Context(), statements, args...); err != nil {
		t.Fatalf("txworktest: %v", err)
	}
}
