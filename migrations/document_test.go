package migrations_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

var (
	documented = regexp.MustCompile(`(?m)^(?:call )?txwork\.(\w+)\((.*?)\)(?: returns (.*?))?(?: --.*)?$`)
	constant   = regexp.MustCompile(`(?i)(retention interval default) ('[^']*'|null)::interval|(id uuid default) \(.*\)\)`)
	cast       = regexp.MustCompile(`::\w+(?: precision| with time zone|\[\])?`)
)

// The functions in docs/sql.md are those that the migrations make, with the same names, parameters, defaults
// and results.
func TestTheDocumentedFunctions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "\n## The functions\n")
	_, block, _ = strings.Cut(block, "```text\n")
	block, _, _ = strings.Cut(block, "```")
	functions := documented.FindAllStringSubmatch(block, -1)
	if len(functions) != strings.Count(block, "\n") || len(functions) < 10 {
		t.Fatalf("%d functions are read in\n%s", len(functions), block)
	}
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Log))
	for _, f := range functions {
		rows, _ := db.Pool.Query(t.Context(),
			`SELECT pg_get_function_arguments(oid), coalesce(pg_get_function_result(oid), '')
			FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname = $2`, db.Schema, f[1])
		made, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (signature string, err error) {
			var arguments, result string
			err = row.Scan(&arguments, &result)
			result = strings.TrimPrefix(result, "record") // its columns are among the parameters
			return asDocumented(arguments) + " returns " + asDocumented(result), err
		})
		if err != nil {
			t.Fatal(err)
		}
		// the schema is on the search_path
		said := f[2] + " returns " + strings.ReplaceAll(f[3], "txwork.", "")
		if !slices.Contains(made, said) {
			t.Errorf("%s is documented as\n%s\nand made as\n%s", f[1], said, strings.Join(made, "\n"))
		}
	}
}

// asDocumented leaves out the defaults of retentions, which depend on the table and which the page explains in words,
// and that of an id, which is an expression.
func asDocumented(signature string) string {
	text := cast.ReplaceAllString(constant.ReplaceAllString(strings.ReplaceAll(signature, "IN ", ""), "$1$3 …"), "")
	return strings.NewReplacer("INOUT ", "inout ", "OUT ", "out ", "integer", "int", "DEFAULT NULL", "default null",
		"DEFAULT", "default", "SETOF ", "setof ", "TABLE(", "table (", "timestamp with time zone", "timestamptz",
	).Replace(text)
}
