package migrations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	for range 2 {
		if got := versions(up(t, m)); !slices.Equal(got, every()) {
			t.Fatalf("up applied %v", got)
		}
		if got := up(t, m); got == nil || len(got) != 0 {
			t.Fatalf("a second up applied %v", got)
		}
		if err := m.Validate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, want := range backwards(every()) {
			taken, err := m.DownTo(t.Context(), want-1)
			if err != nil || !slices.Equal(versions(taken), []int64{want}) {
				t.Fatalf("down took %v back, %v, want %v", taken, err, want)
			}
		}
		if taken, err := m.DownTo(t.Context(), 0); err != nil || len(taken) != 0 {
			t.Fatalf("down of nothing took %v back, %v", taken, err)
		}
		if n := objects(t, db.Pool, db.Schema); n != 0 {
			t.Fatalf("%d objects remain in the schema", n)
		}
	}
}

func TestUpMakesTheSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	m := newMigrator(t, db.Pool, schema)
	up(t, m)
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "DROP SCHEMA "+schema) // without CASCADE
}

func TestUpToAndDownTo(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	if applied, err := m.UpTo(t.Context(), 1); err != nil || !slices.Equal(versions(applied), []int64{1}) {
		t.Fatalf("%v, %v", applied, err)
	}
	if v, err := m.Version(t.Context()); err != nil || v != 1 {
		t.Errorf("version %d, %v", v, err)
	}
	if applied := up(t, m); !slices.Equal(versions(applied), every()[1:]) {
		t.Errorf("up applied %v after version 1", applied)
	}
	if taken, err := m.DownTo(t.Context(), 1); err != nil || !slices.Equal(versions(taken), backwards(every()[1:])) {
		t.Errorf("%v, %v", taken, err)
	}
	if taken, err := m.DownTo(t.Context(), 1); err != nil || taken == nil || len(taken) != 0 {
		t.Errorf("a second time %v, %v", taken, err)
	}
}

func TestResultsNameTheMigration(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	applied := up(t, newMigrator(t, db.Pool, db.Schema))
	if a := applied[0]; a.Name != "001_outbox" || a.Duration <= 0 {
		t.Errorf("%+v", a)
	}
	text, err := json.Marshal(migrations.Applied{Version: 1, Domain: migrations.Outbox, Name: "001_outbox",
		Duration: time.Millisecond})
	if want := `{"version":1,"domain":"outbox","name":"001_outbox","duration_ns":1000000}`; err != nil ||
		string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestTenMigratorsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	shared := newMigrator(t, db.Pool, schema)
	var total []int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 10 {
		m := shared
		if i >= 3 { // as if in processes of their own
			m = newMigrator(t, newPool(t, db.URL, 1), schema)
		}
		wg.Go(func() {
			applied, err := m.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total = append(total, versions(applied)...)
		})
	}
	wg.Wait()
	if !slices.Equal(total, every()) {
		t.Errorf("applied in total: %v", total)
	}
	if err := shared.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUpAndDownAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var wg sync.WaitGroup
	for i := range 6 {
		m := newMigrator(t, db.Pool, db.Schema)
		wg.Go(func() {
			for range 3 {
				var err error
				if i%2 == 0 {
					_, err = m.Up(t.Context())
				} else {
					_, err = m.DownTo(t.Context(), 0)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// newPool opens a pool of a given size.
func newPool(t *testing.T, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A firstLine is a log that calls a function at its first line.
type firstLine struct {
	bytes.Buffer
	written func()
}

func (l *firstLine) Write(line []byte) (int, error) {
	defer l.written()
	return l.Buffer.Write(line)
}

func TestWaitForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &firstLine{written: cancel} // which says that it waits
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	id := migrations.LockID(db.Schema)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", id); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(ctx); err == nil || !strings.Contains(err.Error(), "waiting for another migrator") {
		t.Errorf("%v", err)
	}
	if n := strings.Count(log.String(), "waiting for another migrator"); n != 1 {
		t.Errorf("said %d times that it waits:\n%s", n, log.String())
	}
	// Readers do not wait.
	if _, err := m.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", id); err != nil {
		t.Fatal(err)
	}
	up(t, m)
}

// A migration that is blocked is rolled back as a whole when the context ends, and can be run again.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet, LockTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	up(t, m)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE outbox"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		awaitLock(t, db.Pool, "outbox")
	}()
	taken, err := m.DownTo(ctx, 0)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "001_outbox") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(versions(taken), backwards(every()[1:])) {
		t.Errorf("took %v back", taken)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if applied := up(t, m); !slices.Equal(versions(applied), every()[1:]) {
		t.Errorf("then applied %v", applied)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// awaitLock returns when a session waits for a lock on a table.
func awaitLock(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	waiting := false
	for !waiting && t.Context().Err() == nil {
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT "+
			"granted)", table).Scan(&waiting)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestLockIsReleased(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	exec(t, db.Pool, "CREATE VIEW hold AS SELECT * FROM leader")
	if _, err := m.DownTo(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "002_reaper") {
		t.Errorf("down dropped a table that a view needs: %v", err)
	}
	var key = uint64(migrations.LockID(db.Schema))
	if n := value[int](t, db.Pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND "+
		"objid = $2",
		uint32(key>>32), uint32(key)); n != 0 {
		t.Errorf("%d locks are held", n)
	}
}

// Not parallel: it looks at the goroutines of the whole process.
func TestNothingRemainsRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("uses everything", func(t *testing.T) {
		db := pgtest.New(t)
		m := newMigrator(t, db.Pool, db.Schema)
		up(t, m)
		if err := m.Validate(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := m.DownTo(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if n := db.Pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections are still in use", n)
		}
	})
	goleak.VerifyNone(t, before)
}

func TestTwoSchemasSideBySide(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	other := unmade(t, db)
	one, two := newMigrator(t, db.Pool, db.Schema), newMigrator(t, db.Pool, other)
	up(t, one)
	up(t, two)
	if _, err := one.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := two.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := one.Version(t.Context()); err != nil || v != 0 {
		t.Errorf("version %d, %v", v, err)
	}
}

// The schema may have a name that SQL reserves.
func TestReservedSchemaName(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const schema = "authorization"
	if schemaExists(t, db.Pool, schema) {
		t.Skip("the database has such a schema")
	}
	t.Cleanup(func() {
		execContext(context.Background(), t, db.Pool, `DROP SCHEMA IF EXISTS "authorization" CASCADE`)
	})
	m := newMigrator(t, db.Pool, schema)
	up(t, m)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	m := newMigrator(t, db.Pool, schema)
	before, err := m.Status(t.Context())
	var pending []string
	for _, m := range migrations.All() {
		pending = append(pending, fmt.Sprintf(`{"version":%d,"domain":%q,"name":%q,"applied":false}`, m.Version,
			m.Domain, m.Name))
	}
	want := "[" + strings.Join(pending, ",") + "]"
	if text, _ := json.Marshal(before); err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if schemaExists(t, db.Pool, schema) {
		t.Error("status made the schema")
	}
	if _, err := m.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	after, err := m.Status(t.Context())
	if err != nil || len(after) != len(every()) || !after[0].Applied {
		t.Fatalf("%+v, %v", after, err)
	}
	for _, s := range after[1:] {
		if s.Applied {
			t.Errorf("%+v is said to be applied", s)
		}
	}
	if age := time.Since(after[0].AppliedAt); age < -time.Minute || age > time.Minute {
		t.Errorf("applied %v ago", age)
	}
}

// AppliedAt is right in every time zone of the session.
func TestAppliedAtInAnotherZone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t,
		pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["timezone"] = "Pacific/Auckland" }))
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(all[0].AppliedAt); age < -time.Minute || age > time.Minute {
		t.Errorf("applied %v ago", age)
	}
}

func TestLeaderTable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	got := value[string](t, db.Pool, `
		SELECT string_agg(format('%s %s%s', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' not null' END), ', ' ORDER BY attnum)
		FROM pg_attribute WHERE attrelid = 'leader'::regclass AND attnum > 0`)
	if want := "name text not null, term bigint not null, holder uuid not null, expires_at timestamp with time zone " +
		"not null, granted_at timestamp with time zone not null, problem text"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
