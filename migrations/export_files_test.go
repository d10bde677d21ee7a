package migrations_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// An application's folder has files of its own before and after those of txwork. The files of an upgrade are added at
// the end, and goose applies them to a database that has the others.
func TestExportAgainAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	o := migrations.FileOptions{Schema: unmade(t, db), Format: migrations.Goose, First: 20261123000001,
		Domains: []migrations.Domain{migrations.Reaper, migrations.Outbox}}
	dir := t.TempDir()
	own := func(name, table string) {
		text := "-- +goose Up\nCREATE TABLE " + table + " ();\n-- +goose Down\nDROP TABLE " + table + ";\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	export := func(want ...string) {
		t.Helper()
		written, err := migrations.Export(dir, o)
		if err != nil || !slices.Equal(written, want) {
			t.Fatalf("wrote %v, %v; want %v", written, err, want)
		}
	}
	up := func() {
		t.Helper()
		provider, err := goose.NewProvider(goose.DialectPostgres, db.SQL(t), os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	own("20260101000001_orders.sql", "orders")
	export("20261123000001_txwork_outbox.sql", "20261123000002_txwork_reaper.sql")
	export()
	own("20270101000001_lines.sql", "lines")
	up()

	o.First, o.Domains = 0, append(o.Domains, migrations.Jobs) // as if an upgrade had brought them
	export("20270101000002_txwork_jobs.sql")
	export()
	up()
	if err := newMigrator(t, db.Pool, o.Schema).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	o.First, o.Domains = 20261123000001, append(o.Domains, migrations.Inbox) // the first command again
	export("20270101000003_txwork_inbox.sql")
	o.Schema = "other"
	if _, err := migrations.Export(dir, o); err == nil ||
		!strings.Contains(err.Error(), "20261123000001_txwork_outbox.sql") {
		t.Errorf("the files of another schema: %v", err)
	}
}

// Without First, in a folder with sequential numbers, txwork's files continue the numbers in the same width.
func TestExportContinuesTheNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00042_orders.up.sql"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := migrations.FileOptions{Domains: []migrations.Domain{migrations.Reaper, migrations.Jobs}}
	written, err := migrations.Export(dir, o)
	if want := []string{"00043_txwork_reaper.up.sql", "00043_txwork_reaper.down.sql", "00044_txwork_jobs.up.sql",
		"00044_txwork_jobs.down.sql"}; err != nil || !slices.Equal(written, want) {
		t.Errorf("wrote %v, %v; want %v", written, err, want)
	}
}
