package migrations_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// quiet keeps the tests' output short.
var quiet = slog.New(slog.DiscardHandler)

func newMigrator(t *testing.T, pool *pgxpool.Pool, schema string) *migrations.Migrator {
	t.Helper()
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func up(t *testing.T, m *migrations.Migrator) []migrations.Applied {
	t.Helper()
	applied, err := m.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// unmade returns the name of a schema that does not exist. If the test creates it, it is dropped when the test ends.
func unmade(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	schema := db.Schema + "_x"
	t.Cleanup(func() { execContext(context.Background(), t, db.Pool, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return schema
}

func exec(t *testing.T, pool *pgxpool.Pool, text string, args ...any) {
	t.Helper()
	execContext(t.Context(), t, pool, text, args...)
}

func execContext(ctx context.Context, t *testing.T, pool *pgxpool.Pool, text string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(ctx, text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func value[T any](t *testing.T, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// objects counts the relations and functions of a schema.
func objects(t *testing.T, pool *pgxpool.Pool, schema string) int {
	t.Helper()
	return value[int](t, pool, `
		SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid) + (SELECT count(*) FROM pg_proc WHERE pronamespace = n.oid)
		FROM pg_namespace AS n WHERE n.nspname = $1`, schema)
}

func schemaExists(t *testing.T, pool *pgxpool.Pool, schema string) bool {
	t.Helper()
	return value[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema)
}

// every returns the versions of the default migrations in the order in which they are applied. Tests that name versions
// use only the first two, so that they need no change when migrations are added.
func every() []int64 { return versions(migrations.All()) }

// latest is the newest version that this library knows.
func latest() int64 { return slices.Max(versions(migrations.Known())) }

// backwards returns versions in the order in which they are reverted.
func backwards(list []int64) []int64 {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func versions(applied []migrations.Applied) []int64 {
	list := []int64{}
	for _, a := range applied {
		list = append(list, a.Version)
	}
	return list
}
