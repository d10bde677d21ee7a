package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// SchemaPlaceholder stands for the schema in the embedded files.
const SchemaPlaceholder = schemaPlaceholder

// GooseLayout is the directory that a Migrator passes to goose.
var GooseLayout = func(schema string) (fs.FS, error) { return gooseLayout(of(load(schema), DefaultDomains()), "3000") }

// All returns the embedded migrations of the default domains in their order, as Up would report them.
func All() []Applied { return applied(of(load("txwork"), DefaultDomains())) }

// Known returns all embedded migrations.
func Known() []Applied { return applied(load("txwork")) }

func applied(list []migration) (all []Applied) {
	for _, m := range list {
		all = append(all, Applied{Version: m.version, Domain: m.domain, Name: m.name})
	}
	return all
}

// RenderFile renders an embedded file for a schema.
var RenderFile = render

// LockID is the advisory lock of a schema's migrations.
func LockID(schema string) int64 { return newSchemaLock(schema, nil).id }

// An Object is an object of a schema.
type Object = object

// Compared lists, by kind, the facts that Validate compares.
var Compared = compared

// Catalog returns the objects of a schema, and the schema's name as definitions contain it.
func Catalog(ctx context.Context, tx pgx.Tx, schema string) ([]Object, string, error) {
	c, err := readCatalog(ctx, tx, schema)
	return c.objects, c.schema, err
}

// Comparer returns a function that compares a catalog of the schema with the one that the migrations make.
func Comparer(schema string) func([]Object) Differences {
	routines := routines(load(schema))
	want := snapshot(schema, routines)
	m := newMender(schema, routines, want)
	return func(have []Object) Differences { return compare(want, catalog{schema, have}, m, nil) }
}

// Extend adds a migration to those that a Migrator knows, and returns its version.
func Extend(m *Migrator, d Domain, name, up, down string) int64 {
	version := m.latest() + 1
	m.migrations = append(m.migrations, migration{version: version, domain: d,
		name: fmt.Sprintf("%03d_%s_%s", version, d, name), up: strings.ReplaceAll(up, schemaPlaceholder, m.schema),
		down: strings.ReplaceAll(down, schemaPlaceholder, m.schema)})
	return version
}

// Losses returns what running a down direction loses, as text, or an error if it is not known.
func Losses(up, down string) (all []string, err error) {
	losses, err := migration{name: "100_test", up: up, down: down}.losses()
	for _, l := range losses {
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s.%s", l.table, l.column), "."))
	}
	return all, err
}

// Text returns the two directions of an embedded migration.
func Text(name string) (up, down string) {
	return render(name+".up.sql", "txwork"), render(name+".down.sql", "txwork")
}

// Plain is an up direction for tables that were just made.
func Plain(up string) string { return migration{up: up}.plain() }

// FilesOf returns the files of all migrations that a Migrator knows.
func FilesOf(m *Migrator, f Format) (fs.FS, error) {
	return directory(FileOptions{Schema: m.schema, Format: f}.filesOf(m.schema, m.migrations))
}

// SplitConcurrent returns the statements of a concurrent migration, and false for any other.
func SplitConcurrent(name string) (up, down []string, concurrent bool) {
	m := migration{up: render(name+".up.sql", "txwork"), down: render(name+".down.sql", "txwork")}
	return statements(m.up), statements(m.down), m.concurrent()
}

// ConcurrentFiles is how many numbers a concurrent migration takes.
const ConcurrentFiles = concurrentFiles

// Resumable is the up direction of a concurrent migration.
func Resumable(name string) string {
	return migration{up: render(name+".up.sql", "txwork")}.resumable().text()
}
