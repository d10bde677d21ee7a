package migrations_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

func newMigratorOf(t *testing.T, pool *pgxpool.Pool, schema string, domains ...migrations.Domain) *migrations.Migrator {
	t.Helper()
	m, err := migrations.New(pool, migrations.Options{Schema: schema, Domains: domains, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tablesOf returns the tables of a schema without those of the migrations themselves, each by its name up to the first
// underscore. The tables process and history come and go with leader.
func tablesOf(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	return lines(t, pool, `SELECT DISTINCT split_part(relname, '_', 1) FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND relname NOT LIKE 'schema\_%'
			AND relname !~ '^(process|history|audit)'`, schema)
}

// A schema that was made with some domains has only their tables, is valid, and keeps these domains in later runs.
func TestEachDomainAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		domain migrations.Domain
		tables []string
	}{
		{migrations.Outbox, []string{"leader", "outbox"}},
		{migrations.Reaper, []string{"leader"}},
		{migrations.Inbox, []string{"inbox", "leader"}},
		{migrations.Timers, []string{"leader", "timers"}},
		{migrations.Alarms, []string{"alarms", "leader", "timers"}},
		{migrations.Jobs, []string{"jobs", "leader"}},
	} {
		t.Run(string(test.domain), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			up(t, newMigratorOf(t, db.Pool, db.Schema, test.domain))
			m := newMigrator(t, db.Pool, db.Schema)
			if applied := up(t, m); len(applied) != 0 {
				t.Errorf("the next run applied %v", applied)
			}
			if tables := tablesOf(t, db.Pool, db.Schema); !slices.Equal(tables, test.tables) {
				t.Errorf("the schema has %v, want %v", tables, test.tables)
			}
			found, err := m.Differences(t.Context())
			if err != nil || len(found) != 0 {
				t.Errorf("%v, %v", found, err)
			}
			text := roles(t, migrations.RoleOptions{Schema: db.Schema, Domains: []migrations.Domain{test.domain}})
			for _, table := range []string{"alarms", "inbox", "jobs", "leader", "outbox", "timers"} {
				if strings.Contains(text, `"."`+table+`"`) != slices.Contains(test.tables, table) {
					t.Errorf("rights on %s: want them %v", table, slices.Contains(test.tables, table))
				}
			}
			exec(t, db.Pool, "DROP TABLE "+tableOf(test.domain)+" CASCADE")
			if err := m.Validate(t.Context()); err == nil ||
				!strings.Contains(err.Error(), "table "+db.Schema+"."+tableOf(test.domain)) {
				t.Errorf("without its table: %v", err)
			}
		})
	}
}

func tableOf(d migrations.Domain) string {
	if d == migrations.Reaper {
		return "leader"
	}
	return string(d)
}

// After an interrupted Up, the next one continues with the same domains.
func TestAnInterruptedUpOfSomeDomainsGoesOn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := newMigratorOf(t, db.Pool, db.Schema, migrations.Outbox, migrations.Jobs).UpTo(t.Context(),
		2); err != nil {
		t.Fatal(err)
	}
	m := newMigrator(t, db.Pool, db.Schema)
	if err := m.Validate(t.Context()); err == nil || !strings.Contains(err.Error(), "006_jobs is pending") {
		t.Errorf("%v", err)
	}
	if applied := up(t, m); !slices.Equal(versions(applied), []int64{6}) {
		t.Errorf("then applied %v", applied)
	}
}

// A domain is added to a schema with newer ones, alone or together with them. The outbox is older than the reaper, that
// every schema has.
func TestDomainsAreAddedInAnyOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	domains := []migrations.Domain{migrations.Jobs, migrations.Alarms, migrations.Timers, migrations.Inbox,
		migrations.Outbox}
	for i, d := range domains {
		added := domains[i : i+1]
		if d == migrations.Inbox {
			added = domains[:i+1]
		}
		m := newMigratorOf(t, db.Pool, db.Schema, added...)
		up(t, m)
		if err := m.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestDomainsComeAndGo(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Jobs))
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Alarms)) // its versions are older than that of jobs
	if tables := tablesOf(t, db.Pool, db.Schema); !slices.Equal(tables, []string{"alarms", "jobs", "leader",
		"timers"}) {
		t.Errorf("the schema has %v", tables)
	}
	for _, d := range []migrations.Domain{migrations.Timers, migrations.Reaper} {
		if _, err := newMigratorOf(t, db.Pool, db.Schema, d).DownTo(t.Context(), 0); err == nil ||
			!strings.Contains(err.Error(), string(d)+" is needed by") {
			t.Errorf("%s was taken from those that need it: %v", d, err)
		}
	}
	taken, err := newMigratorOf(t, db.Pool, db.Schema, migrations.Alarms, migrations.Timers).DownTo(t.Context(), 0)
	if err != nil || !slices.Equal(versions(taken), []int64{5, 4}) {
		t.Fatalf("%v, %v", taken, err)
	}
	m := newMigrator(t, db.Pool, db.Schema)
	if applied := up(t, m); len(applied) != 0 {
		t.Errorf("what was taken back came again: %v", applied)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if n := objects(t, db.Pool, db.Schema); n != 0 {
		t.Errorf("%d objects remain", n)
	}
}

// The SQL of a domain can be run after that of other domains.
func TestSQLOfDomains(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, domains := range [][]migrations.Domain{{migrations.Reaper, migrations.Jobs}, {migrations.Inbox}} {
		text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema, Domains: domains})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db.Pool, text)
	}
	if tables := tablesOf(t, db.Pool, db.Schema); !slices.Equal(tables, []string{"inbox", "jobs", "leader"}) {
		t.Errorf("the schema has %v", tables)
	}
	if err := newMigrator(t, db.Pool, db.Schema).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// An application's goose runs txwork's files together with the application's, up and down, and a Migrator agrees about
// the versions.
func TestFilesAmongThoseOfAnApplication(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema, dir := unmade(t, db), t.TempDir()
	mine := func(number, text string) {
		if err := os.WriteFile(filepath.Join(dir, number+"_mine.sql"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mine("20261101000000", "-- +goose Up\nCREATE TABLE mine (id int);\n-- +goose Down\nDROP TABLE mine;\n")
	export := func(first int64, domains ...migrations.Domain) {
		t.Helper()
		o := migrations.FileOptions{Schema: schema, Domains: domains, Format: migrations.Goose, First: first}
		written, err := migrations.Export(dir, o)
		if err != nil || len(written) != len(domains) {
			t.Fatalf("wrote %v, %v", written, err)
		}
		if written, err := migrations.Export(dir, o); err != nil || len(written) != 0 {
			t.Fatalf("wrote %v again, %v", written, err)
		}
	}
	export(20261102000000, migrations.Reaper, migrations.Jobs)
	mine("20261103000000", "-- +goose Up\nALTER TABLE mine ADD COLUMN x int;\n-- +goose Down\nALTER TABLE mine DROP "+
		"COLUMN x;\n")
	export(20261104000000, migrations.Inbox)
	names, err := fs.Glob(os.DirFS(dir), "*_txwork_*.sql")
	if want := []string{"20261102000000_txwork_reaper.sql", "20261102000001_txwork_jobs.sql",
		"20261104000000_txwork_inbox.sql"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v, want %v", names, err, want)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := newMigrator(t, db.Pool, schema)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if applied := up(t, m); len(applied) != 0 {
		t.Errorf("up applied %v after goose", applied)
	}
	if _, err := provider.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if n := objects(t, db.Pool, schema); n != 0 {
		t.Errorf("%d objects remain", n)
	}
}

func TestUnknownDomainsAndFormatsAreRefused(t *testing.T) {
	t.Parallel()
	const unknown = migrations.Domain("outboxes")
	_, newErr := migrations.New(pgtest.New(t).Pool, migrations.Options{Domains: []migrations.Domain{unknown}})
	_, sqlErr := migrations.SQL(migrations.FileOptions{Domains: []migrations.Domain{unknown}})
	_, rolesErr := migrations.Roles(migrations.RoleOptions{Domains: []migrations.Domain{unknown}})
	for _, err := range []error{newErr, sqlErr, rolesErr} {
		if err == nil || !strings.Contains(err.Error(),
			`"outboxes" is unknown, there are outbox, reaper, inbox, timers, alarms, jobs, log`) {
			t.Errorf("%v", err)
		}
	}
	if _, err := migrations.Roles(migrations.RoleOptions{Domains: migrations.Domains(),
		Tables: []migrations.RoleTable{{Name: "mine"}}}); err == nil {
		t.Error("rights of domains and of other tables were printed together")
	}
	for _, o := range []migrations.FileOptions{{Format: 2}, {First: -1}} {
		if _, err := migrations.FS(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := migrations.ParseFormat("flyway"); err == nil {
		t.Error("flyway is a format")
	}
}

func roles(t *testing.T, o migrations.RoleOptions) string {
	t.Helper()
	text, err := migrations.Roles(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
