package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func newImpatientMigrator(t *testing.T, pool *pgxpool.Pool, schema string) *migrations.Migrator {
	t.Helper()
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Logger: quiet,
		LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A migration does not wait for a table in use without a limit, because all later statements on the table would queue
// behind it.
func TestTableInUse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	pool := newPool(t, db.URL, 1)
	m := newImpatientMigrator(t, pool, db.Schema)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var pid int
	if err := tx.QueryRow(t.Context(),
		"SELECT pg_backend_pid() FROM outbox RIGHT JOIN (VALUES (1)) AS one ON true").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	taken, err := m.DownTo(t.Context(), 0)
	for _, want := range []string{"migrate down 001_outbox", "a table was in use for more than 50ms",
		fmt.Sprintf("process %d", pid), "idle in transaction"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if !slices.Equal(versions(taken), backwards(every()[1:])) {
		t.Errorf("took %v back", taken)
	}
	if setting := value[string](t, pool, "SHOW lock_timeout"); setting != value[string](t, db.Pool,
		"SHOW lock_timeout") {
		t.Errorf("the pool's session goes on with a lock timeout of %s", setting)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE outbox"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.RowsAbove(t.Context(), 0); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
		t.Errorf("counting: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	up(t, m)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBadLockTimeouts(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-time.Second, time.Nanosecond, 25 * 24 * time.Hour} {
		_, err := migrations.New(new(pgxpool.Pool), migrations.Options{LockTimeout: d})
		if !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestRowsAbove(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	rows := func(version int64) []migrations.TableRows {
		t.Helper()
		rows, err := m.RowsAbove(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if got := rows(0); len(got) != 0 {
		t.Errorf("before any migration %v", got)
	}
	up(t, m)
	if got := rows(0); got == nil || len(got) != 0 {
		t.Errorf("as migrated %v", got)
	}
	exec(t, db.Pool, "INSERT INTO outbox (topic, payload, key) SELECT 'a', '', 'b' FROM generate_series(1, 3)")
	exec(t, db.Pool, "INSERT INTO leader VALUES ('a', 1, gen_random_uuid(), now(), now())")
	exec(t, db.Pool, "DROP TABLE jobs_step")
	if got, want := rows(0), []migrations.TableRows{{Table: "outbox", Rows: 3},
		{Table: "leader", Rows: 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := rows(1), []migrations.TableRows{{Table: "leader", Rows: 1}}; !slices.Equal(got, want) {
		t.Errorf("above version 1 %v, want %v", got, want)
	}
	if got := rows(latest()); len(got) != 0 {
		t.Errorf("above the latest %v", got)
	}
}
