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

// Server is the URL of a PostgreSQL server for the tests of this process. It is the one that the environment
// variable TXWORK_DATABASE_URL names, whose user must be allowed to create schemas, or else a private one:
// the first call starts it, which takes about a second, all tests share it, and it ends with the process and leaves
// nothing behind. The private one needs PostgreSQL's binaries, installed or in the directory TXWORK_POSTGRES_BIN; where
// there are none they are downloaded into the user's cache.
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

// Schema makes a schema with a name no other has on the server, and in it txwork's tables by package migrations.
// Connections of the DB have it, and only it, as their search_path, so that an application's own tables can be made
// there, too. When the test ends the schema is dropped. Tests with a schema each may be parallel.
//
// The functions configure change the pool's configuration before the pool is made.
func Schema(t testing.TB, url string, configure ...func(*pgxpool.Config)) *DB {
	t.Helper()
	test := pgschema.New(t, url, configure...)
	text, err := migrations.SQL(migrations.FileOptions{Schema: test.Schema})
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	db := &DB{Pool: test.Pool, Schema: test.Schema, URL: test.URL, test: test}
	db.Exec(t, text)
	return db
}

// Begin opens a transaction that is rolled back when the test ends, unless the test has ended it. It keeps one of the
// pool's connections until then.
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

// rollbackLimit bounds the end of a test whose connection hangs.
const rollbackLimit = 10 * time.Second

// SQL is a database/sql handle on the schema, through pgx, that is closed when the test ends.
func (db *DB) SQL(t testing.TB) *sql.DB {
	t.Helper()
	return db.test.SQL(t)
}

// Exec runs statements in the schema, such as those that make an application's tables. Without arguments there may
// be several, which are one transaction. It refuses a file of goose, of which it would run both directions: use
// [DB.Migrate].
func (db *DB) Exec(t testing.TB, statements string, args ...any) {
	t.Helper()
	if gooseDown.MatchString(statements) {
		t.Fatalf("txworktest: the text is a goose file, whose Down would run after its Up: use DB.Migrate")
	}
	if _, err := db.Pool.Exec(t.Context(), statements, args...); err != nil {
		t.Fatalf("txworktest: %v", err)
	}
}
