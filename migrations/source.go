package migrations

import (
	"cmp"
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

// The migrations are frozen pairs NNN_name.up.sql and NNN_name.down.sql, in plain SQL, which every tool that runs SQL
// can run. They are not goose files, because psql would run the Up of such a file and then its Down.
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

// render returns an embedded file with the placeholder replaced by the schema. It panics if the file is missing, which
// is a bug in this package.
func render(name, schema string) string {
	text, err := files.ReadFile("sql/" + name)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), schemaPlaceholder, schema)
}

// prologue returns the statements before the first migration: they create the schema and the tables of versions and
// domains. They do nothing if the files of another domain have created these.
func prologue(schema string) string {
	return render("schema.sql", schema) + "\n" + render("version_table.sql", schema) + "\n" + recordVersion(schema,
		setUpVersion)
}

// setUpVersion is the version with which goose marks a new table of versions.
const setUpVersion = 0

// recordVersion returns the statement that records a migration as applied.
func recordVersion(schema string, version int64) string {
	text := fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (%d, true)", versionTableName(schema), version)
	if version == setUpVersion {
		text += onConflict
	}
	return text + ";\n"
}

// onConflict is for what may be run again.
const onConflict = " ON CONFLICT DO NOTHING"

func forgetVersion(schema string, version int64) string {
	return fmt.Sprintf("DELETE FROM %s WHERE version_id = %d;\n", versionTableName(schema), version)
}

// epilogue returns the statements that drop the table of versions, unless it still records migrations of other files.
func epilogue(schema string) string { return render("forget.sql", schema) }

// recordDomain returns the statement that records that the schema is to have a domain.
func recordDomain(schema string, d Domain) string {
	return fmt.Sprintf("INSERT INTO %s (name) VALUES ('%s') ON CONFLICT DO NOTHING;\n", domainTableName(schema), d)
}

func forgetDomain(schema string, d Domain) string {
	return fmt.Sprintf("DELETE FROM %s WHERE name = '%s';\n", domainTableName(schema), d)
}

func domainTableName(schema string) string { return `"` + schema + `"."schema_domain"` }

// versionTableName is quoted, because a schema may have a name such as user or order.
func versionTableName(schema string) string { return `"` + schema + `"."schema_version"` }

// schemaOrDefault checks the schema's name, including the names that are derived from it.
func schemaOrDefault(schema string) (string, error) {
	schema = cmp.Or(schema, workqueue.DefaultSchema)
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
