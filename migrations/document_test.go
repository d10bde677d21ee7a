package migrations_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

var (
	documented = regexp.MustCompile(`(?m)^(?:call )?txwork\.(\w+)\((.*?)\)(?: returns (.*?))?(?: --.*)?$`)
	constant   = regexp.MustCompile(`(?i)(retention interval) default ('[^']*'|null)::interval`)
	cast       = regexp.MustCompile(`::\w+(?: precision|\[\])?`)
)

// The functions in docs/state-machine.md are those that the migrations make, with the same names, parameters, defaults
// and results.
func TestTheDocumentedFunctions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	functions := documented.FindAllStringSubmatch(block, -1)
	if len(functions) != strings.Count(block, "\n") || len(functions) < 10 {
		t.Fatalf("%d functions are read in\n%s", len(functions), block)
	}
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	for _, f := range functions {
		var arguments, result string
		err := db.Pool.QueryRow(t.Context(),
			`SELECT pg_get_function_arguments(oid), coalesce(pg_get_function_result(oid), '')
			FROM pg_proc WHERE pronamespace = $1::regnamespace AND proname = $2`, db.Schema, f[1]).Scan(&arguments, &result)
		if err != nil {
			t.Errorf("%s: %v", f[1], err)
			continue
		}
		if got := asDocumented(arguments); got != f[2] {
			t.Errorf("%s takes (%s), not (%s)", f[1], got, f[2])
		}
		// the schema is on the search_path
		if got := asDocumented(result); got != strings.ReplaceAll(f[3], "txwork.", "") {
			t.Errorf("%s returns %s, not %s", f[1], got, f[3])
		}
	}
}

// asDocumented leaves out the defaults of retentions, which depend on the table and which the page explains in words.
func asDocumented(signature string) string {
	text := cast.ReplaceAllString(constant.ReplaceAllString(strings.ReplaceAll(signature, "IN ", ""), "$1"), "")
	return strings.NewReplacer("INOUT ", "inout ", "integer", "int", "DEFAULT NULL", "default null", "DEFAULT",
		"default", "SETOF ", "setof ", "TABLE(", "table (").Replace(text)
}
