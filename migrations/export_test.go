package migrations

import (
	"context"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

// SchemaPlaceholder stands for the schema in the embedded files.
const SchemaPlaceholder = schemaPlaceholder

// GooseLayout is the directory that a Migrator passes to goose.
var GooseLayout = func(schema string) (fs.FS, error) { return gooseLayout(load(schema)) }

// All returns the embedded migrations in their order, as Up would report them.
func All() []Applied {
	var all []Applied
	for _, m := range load("txwork") {
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
