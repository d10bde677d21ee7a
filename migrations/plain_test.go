package migrations_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

func TestPlainSQLIsWhatUpDoes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	text, err := migrations.SQL(migrations.FileOptions{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, text) // without arguments: the simple protocol, many statements in one transaction, as psql -1
	m := newMigrator(t, db.Pool, schema)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if applied := up(t, m); len(applied) != 0 {
		t.Errorf("up applied %v after the plain SQL", applied)
	}
	up(t, newMigrator(t, db.Pool, db.Schema))
	if plain, goose := catalog(t, db.Pool, schema), catalog(t, db.Pool, db.Schema); !slices.Equal(plain, goose) {
		t.Errorf("plain SQL and goose differ:\n%s", firstDifference(strings.Join(goose, "\n"),
			strings.Join(plain, "\n")))
	}
	if _, err := db.Pool.Exec(t.Context(), text); err == nil {
		t.Error("the plain SQL ran twice")
	}
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestPlainSQLHasNoPlaceholder(t *testing.T) {
	t.Parallel()
	text, err := migrations.SQL(migrations.FileOptions{})
	if err != nil || strings.Contains(text, "{{") || !strings.Contains(text, `"txwork"."outbox"`) {
		t.Errorf("%v in\n%s", err, text)
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	dir, err := migrations.FS(migrations.FileOptions{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(dir, "*.sql")
	var want, ups, downs []string
	for _, m := range migrations.All() {
		want = append(want, m.Name+".down.sql", m.Name+".up.sql")
		ups = append(ups, m.Name+".up.sql")
		downs = append([]string{m.Name + ".down.sql"}, downs...)
	}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v, want %v", names, err, want)
	}
	if err := fstest.TestFS(dir, names...); err != nil {
		t.Error(err)
	}
	m := newMigrator(t, db.Pool, schema)
	for range 2 {
		run(t, db.Pool, dir, ups...)
		if err := m.Validate(t.Context()); err != nil {
			t.Error(err)
		}
		first := len(downs) - 1
		run(t, db.Pool, dir, downs[:first]...)
		if v, err := m.Version(t.Context()); err != nil || v != 1 {
			t.Errorf("version %d, %v", v, err)
		}
		run(t, db.Pool, dir, downs[first])
	}
	exec(t, db.Pool, "DROP SCHEMA "+schema)
}

func run(t *testing.T, pool *pgxpool.Pool, dir fs.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, pool, string(text))
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db", "migrations")
	for range 2 { // the second time there is nothing to do
		if _, err := migrations.Export(dir, migrations.FileOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := filepath.Join(dir, "001_outbox.up.sql")
	text, err := os.ReadFile(first)
	if err != nil || !strings.Contains(string(text), `CREATE TABLE "txwork"."outbox"`) {
		t.Errorf("%v in\n%s", err, text)
	}
	if err := os.WriteFile(first, []byte("-- edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "002_reaper.up.sql")); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Export(dir, migrations.FileOptions{}); err == nil ||
		!strings.Contains(err.Error(), "001_outbox.up.sql") {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2*len(every())-1 {
		t.Errorf("%d files, %v: something was written", len(entries), err)
	}
}

// catalog lists what is in a schema, without the schema's name.
func catalog(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT format('%s.%s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod))
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'i') AND a.attnum > 0
		UNION ALL
		SELECT p.oid::regprocedure::text || md5(replace(p.prosrc, $1::text, '')) || coalesce(p.proconfig::text, '') || p.proacl::text
		FROM pg_proc AS p WHERE p.pronamespace = $1::text::regnamespace
		UNION ALL
		SELECT pg_get_constraintdef(c.oid) || ' on ' || coalesce(nullif(c.contypid, 0)::regtype::text, c.conrelid::regclass::text)
		FROM pg_constraint AS c WHERE c.connamespace = $1::text::regnamespace
		UNION ALL
		SELECT 'version ' || v.version_id FROM `+schema+`.schema_version AS v`, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.ReplaceAll(line, schema+".", ""))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
