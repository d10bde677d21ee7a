package migrations

import "io/fs"

// SchemaPlaceholder stands for the schema in the embedded files.
const SchemaPlaceholder = schemaPlaceholder

// GooseLayout is the directory that a Migrator gives goose.
var GooseLayout = func(schema string) (fs.FS, error) { return gooseLayout(load(schema)) }

// All are the embedded migrations in their order, as they are named when they are applied.
func All() []Applied {
	var all []Applied
	for _, m := range load("txwork") {
		all = append(all, Applied{Version: m.version, Name: m.name})
	}
	return all
}

// CoreTables are the tables that Validate expects.
var CoreTables = coreTables

// RenderFile is an embedded file for a schema.
var RenderFile = render

// LockID is the advisory lock of a schema's migrations.
func LockID(schema string) int64 { return newSchemaLock(schema, nil).id }
