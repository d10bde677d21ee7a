package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/txwork/txwork/workqueue"
)

// The migrations are frozen pairs NNN_name.up.sql and NNN_name.down.sql, in plain SQL: whatever runs SQL
// can run them. A goose file cannot be the source, because psql would run its Up and then its Down.
//
//go:generate go test . -run TestDomainMigrations|TestCatalogSnapshot -update
//go:embed sql/*.sql
var files embed.FS

// schemaPlaceholder stands for the schema in the embedded files.
const schemaPlaceholder = "{{schema}}"

// A migration is one embedded pair, rendered for a schema.
type migration struct {
	version  int64
	domain   Domain
	name     string // such as 001_outbox
	up, down string
}

var upFile = regexp.MustCompile(`^(([0-9]{3})_([a-z0-9]+)[a-z0-9_]*)\.up\.sql$`)

// load renders all migrations for a schema, in the order of their versions.
func load(schema string) []migration {
	var all []migration
	for _, name := range fileNames() {
		m := upFile.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		version, _ := strconv.ParseInt(m[2], 10, 64) // the pattern admits three digits
		all = append(all, migration{
			version: version,
			domain:  Domain(m[3]),
			name:    m[1],
			up:      render(name, schema),
			down:    render(m[1]+".down.sql", schema),
		})
	}
	slices.SortFunc(all, func(a, b migration) int { return int(a.version - b.version) })
	return all
}

func fileNames() []string {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	for i, name := range names {
		names[i] = path.Base(name)
	}
	return names
}

// render is an embedded file with the schema in the place of its placeholder. A file that is missing is
// a defect of this package.
func render(name, schema string) string {
	text, err := files.ReadFile("sql/" + name)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), schemaPlaceholder, schema)
}

// prologue is what a schema needs before its first migration: itself, and the table of versions. It does nothing where
// another domain's files have made them.
func prologue(schema string) string {
	return render("schema.sql", schema) + "\n" + render("version_table.sql", schema) + "\n" + recordVersion(schema,
		setUpVersion)
}

// setUpVersion is goose's mark of a table that was set up.
const setUpVersion = 0

// recordVersion notes a migration as applied.
func recordVersion(schema string, version int64) string {
	text := fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (%d, true)", versionTableName(schema), version)
	if version == setUpVersion {
		text += " ON CONFLICT DO NOTHING"
	}
	return text + ";\n"
}

func forgetVersion(schema string, version int64) string {
	return fmt.Sprintf("DELETE FROM %s WHERE version_id = %d;\n", versionTableName(schema), version)
}

// epilogue drops the table of versions, unless it records what other files have made.
func epilogue(schema string) string { return render("forget.sql", schema) }

// recordDomain notes that the schema is to have a domain.
func recordDomain(schema string, d Domain) string {
	return fmt.Sprintf("INSERT INTO %s (name) VALUES ('%s') ON CONFLICT DO NOTHING;\n", domainTableName(schema), d)
}

func forgetDomain(schema string, d Domain) string {
	return fmt.Sprintf("DELETE FROM %s WHERE name = '%s';\n", domainTableName(schema), d)
}

func domainTableName(schema string) string { return `"` + schema + `"."schema_domain"` }

// versionTableName is quoted, since a schema may be called user or order.
func versionTableName(schema string) string { return `"` + schema + `"."schema_version"` }

// schemaOrDefault checks the schema's name, by itself and together with the names that derive from it.
func schemaOrDefault(schema string) (string, error) {
	if schema == "" {
		schema = workqueue.DefaultSchema
	}
	if strings.HasPrefix(schema, "pg_") || schema == "information_schema" {
		return "", &workqueue.InvalidError{Field: "schema",
			Reason: fmt.Sprintf("%q is a name that PostgreSQL keeps for itself", schema)}
	}
	for _, table := range CoreTables() {
		if err := (workqueue.Spec{Schema: schema, Table: table}).Validate(); err != nil {
			return "", err
		}
	}
	return schema, nil
}
