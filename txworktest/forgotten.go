package txworktest

import (
	"fmt"
	"testing"
)

// A test that forgets to name its schema in the options of a domain works on the default schema: without tables there,
// everything fails, or, in a database that has been used in another way, finds rows that are not the test's.

// selectForgotten returns the schema of the session, if that is another one than the table's and has such a table.
const selectForgotten = `SELECT n.nspname::text FROM pg_class AS c
	JOIN pg_namespace AS n ON n.oid = c.relnamespace
	WHERE n.nspname = current_schema() AND c.relname = $2::text AND n.nspname <> $1::text
		AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'`

// refuseForgotten ends a test that works on another schema than that of its connections, which [Schema] has made.
func refuseForgotten(t testing.TB, q Querier, schema, table string) {
	t.Helper()
	for _, other := range query(t, q, selectForgotten, schema, table) {
		t.Fatalf("txworktest: %s", forgotten(schema, table, other))
	}
}

func forgotten(schema, table, other string) string {
	return fmt.Sprintf("%s was opened for the tables of schema %s, and this test's are in %s: set Schema: db.Schema in "+
		"its Options", table, schema, other)
}
