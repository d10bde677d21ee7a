package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// What builds an index concurrently does nothing else, and leaves the numbers that golang-migrate needs.
func TestConcurrentMigrationsAreAlone(t *testing.T) {
	t.Parallel()
	for i, m := range migrations.All() {
		up, down, concurrent := migrations.SplitConcurrent(m.Name)
		if !concurrent {
			continue
		}
		if n := strings.Count(migrations.Resumable(m.Name), "IF NOT EXISTS \""); n != 1 {
			t.Errorf("%s builds %d indexes that can be built again", m.Name, n)
		}
		for _, s := range slices.Concat(up, down) {
			if !strings.Contains(s, " INDEX CONCURRENTLY ") && !strings.HasPrefix(s, "COMMENT ON TABLE ") {
				t.Errorf("%s cannot be resumed: %s", m.Name, s)
			}
		}
		if later := migrations.All()[i+1:]; len(later) > 0 && later[0].Version < m.Version+migrations.ConcurrentFiles {
			t.Errorf("%s needs the number of %s", m.Name, later[0].Name)
		}
	}
}

// indexed returns a Migrator with a migration that builds an index concurrently, and the index.
func indexed(t *testing.T, db *pgtest.DB, unique string) (m *migrations.Migrator, index string) {
	t.Helper()
	m = newImpatientMigrator(t, db.Pool, db.Schema)
	migrations.Extend(m, migrations.Outbox, "error_idx", "CREATE "+unique+"INDEX CONCURRENTLY \"outbox_error_idx\"\n"+
		"    ON \"{{schema}}\".\"outbox\" (last_error) WHERE last_error IS NOT NULL;\n\n"+
		"COMMENT ON TABLE \"{{schema}}\".\"outbox\" IS 'txwork core 1, version 2 since 1';\n",
		"DROP INDEX CONCURRENTLY \"{{schema}}\".\"outbox_error_idx\";\n\n"+
			"COMMENT ON TABLE \"{{schema}}\".\"outbox\" IS 'txwork core 1';\n")
	return m, "outbox_error_idx"
}

func isValid(t *testing.T, db *pgtest.DB, index string) bool {
	t.Helper()
	return value[bool](t, db.Pool, "SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)), false)",
		index)
}

// A build waits for older transactions, however long they take, and nobody waits for it. If its session ends meanwhile,
// the next Up builds the index again.
func TestAConcurrentBuildIsResumed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	m, index := indexed(t, db, "")
	const insert = "INSERT INTO outbox (topic, payload) VALUES ('mail', 'x')"
	older, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer older.Rollback(context.WithoutCancel(t.Context()))
	if _, err := older.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	building := func() (ended chan error, pid int) {
		ended = make(chan error, 1)
		go func() {
			_, err := m.Up(t.Context())
			ended <- err
		}()
		const waits = `SELECT coalesce((SELECT pid FROM pg_stat_activity
			WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' || $1 || '%' AND wait_event_type = 'Lock'
				AND clock_timestamp() - query_start > interval '500 ms'), 0)`
		if !pgtest.Await(pgtest.Patience, func() bool {
			pid = value[int](t, db.Pool, waits, db.Schema)
			return pid != 0
		}) {
			select {
			case err := <-ended:
				t.Fatalf("the migration ended: %v", err)
			default:
				t.Fatal("no build waits for the transaction")
			}
		}
		return ended, pid
	}
	ended, pid := building() // for longer than the lock timeout
	exec(t, db.Pool, insert) // waits for nobody
	exec(t, db.Pool, "SELECT pg_terminate_backend($1)", pid)
	if err := <-ended; err == nil {
		t.Fatal("the build ended well without its session")
	}
	if value[int](t, db.Pool, "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid",
		index) != 1 {
		t.Error("no invalid index was left")
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if applied := up(t, m); len(applied) != 1 || !isValid(t, db, index) {
		t.Errorf("applied %v, valid %v", applied, isValid(t, db, index))
	}
	if setting := value[string](t, db.Pool, "SHOW lock_timeout"); setting != "0" {
		t.Errorf("the pool's session goes on with a lock timeout of %s", setting)
	}
	// A build that ended before it was recorded is not repeated.
	built := value[uint32](t, db.Pool, "SELECT to_regclass($1)::oid", index)
	exec(t, db.Pool, "DELETE FROM schema_version WHERE version_id > $1", latest())
	up(t, m)
	if again := value[uint32](t, db.Pool, "SELECT to_regclass($1)::oid", index); again != built {
		t.Error("a valid index was built again")
	}
	if _, err := m.DownTo(t.Context(), latest()); err != nil || isValid(t, db, index) {
		t.Errorf("down: %v, valid %v", err, isValid(t, db, index))
	}
}

// The files do the same in the application's own goose, and as golang-migrate runs them: each as one query.
func TestConcurrentBuildsInFiles(t *testing.T) {
	t.Parallel()
	for format, run := range map[migrations.Format]func(*testing.T, *pgtest.DB, fs.FS, bool) error{
		migrations.Goose: func(t *testing.T, db *pgtest.DB, files fs.FS, forward bool) error {
			provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), files)
			if err != nil {
				t.Fatal(err)
			}
			if !forward {
				_, err = provider.Down(t.Context())
				return err
			}
			_, err = provider.Up(t.Context())
			return err
		},
		migrations.GolangMigrate: func(t *testing.T, db *pgtest.DB, files fs.FS, forward bool) error {
			end := map[bool]string{true: ".up.sql", false: "_idx*.down.sql"}[forward]
			names, err := fs.Glob(files, "*"+end)
			if err != nil {
				t.Fatal(err)
			}
			if !forward {
				slices.Reverse(names)
			}
			for _, name := range names {
				text, err := fs.ReadFile(files, name)
				if err != nil {
					t.Fatal(err)
				}
				if forward && value[bool](t, db.Pool, "SELECT to_regclass('schema_version') IS NOT NULL") &&
					name < fmt.Sprintf("%03d", latest()+1) {
					continue // golang-migrate knows which files it has run
				}
				if _, err := db.Pool.Exec(t.Context(), string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(format.String(), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			m, index := indexed(t, db, "UNIQUE ")
			files, err := migrations.FilesOf(m, format)
			if err != nil {
				t.Fatal(err)
			}
			up(t, newMigrator(t, db.Pool, db.Schema))
			exec(t, db.Pool, "DROP SCHEMA "+db.Schema+" CASCADE")
			exec(t, db.Pool, "CREATE SCHEMA "+db.Schema)
			if err := run(t, db, files, true); err != nil {
				t.Fatal(err)
			}
			if !isValid(t, db, index) || value[int](t, db.Pool, "SELECT max(version_id) FROM schema_version") <= int(latest()) {
				t.Error("the index was not built or not recorded")
			}
			if err := run(t, db, files, false); err != nil || isValid(t, db, index) {
				t.Fatalf("down: %v", err)
			}
			// A build that fails leaves an invalid index.
			exec(t, db.Pool, "INSERT INTO outbox (topic, payload, last_error) VALUES ('mail', 'x', 'no'), ('mail', 'x', 'no')")
			if err := run(t, db, files, true); err == nil || isValid(t, db, index) {
				t.Fatalf("two rows are unique: %v", err)
			}
			exec(t, db.Pool, "DELETE FROM outbox")
			if err := run(t, db, files, true); err != nil || !isValid(t, db, index) {
				t.Errorf("again: %v, valid %v", err, isValid(t, db, index))
			}
		})
	}
}
