package security_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// A function is one of txwork's functions, as the catalogue describes it.
type function struct {
	signature, name, body, path string
	everybody, definer          bool
}

func (f *fixture) functions() []function {
	f.t.Helper()
	rows, err := f.db.Pool.Query(f.t.Context(), `
		SELECT p.oid::regprocedure::text, p.proname::text, p.prosrc,
		       coalesce((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%'), ''),
		       EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.grantee = 0),
		       p.prosecdef
		FROM pg_proc AS p
		WHERE p.pronamespace = $1::regnamespace`, f.db.Schema)
	must(f.t, err)
	defer rows.Close()
	var all []function
	for rows.Next() {
		var one function
		must(f.t, rows.Scan(&one.signature, &one.name, &one.body, &one.path, &one.everybody, &one.definer))
		all = append(all, one)
	}
	must(f.t, rows.Err())
	return all
}

// qualified lists functions that may use the caller's search_path, by the end of their names, with the reason. Every
// name in their bodies has to be qualified.
var qualified = map[string]string{
	"_key_note": "a SET costs every settle of an ordered key more than the note",
	"_announce": "a SET of a function costs every single insert more than the notification itself; the body is one " +
		"condition and one call",
	"_maintain": "a procedure with a SET cannot commit; the functions that it calls have theirs",
	"_fold":     "as _maintain",
}

// setsItsPath matches the body of a procedure that sets its path for its transactions, since one with a SET cannot
// commit.
var setsItsPath = regexp.MustCompile(`^\n#variable_conflict use_column\nBEGIN\n    COMMIT;\n` +
	`    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;\n` +
	`    SET LOCAL search_path = pg_catalog, pg_temp;\n`)

// A call of one of our functions runs only our code with the caller's own rights, and nothing that is on the caller's
// search_path. PUBLIC may call none of them.
func TestEveryFunctionIsSafeToCall(t *testing.T) {
	f := newFixture(t)
	all := f.functions()
	if len(all) < 100 { // five core tables, two of schedules, keyed rows, joins and domains
		t.Errorf("there are only %d functions", len(all))
	}
	for _, one := range all {
		switch {
		case one.everybody:
			t.Errorf("PUBLIC may call %s", one.signature)
		case one.definer != has(definers, one.name):
			t.Errorf("%s runs with its owner's rights: %t", one.signature, one.definer)
		case one.path == "search_path=pg_catalog, pg_temp":
		case one.path != "":
			t.Errorf("%s sets %s", one.signature, one.path)
		case setsItsPath.MatchString(one.body):
		case !has(qualified, one.name):
			t.Errorf("%s has no search_path of its own, and is not in the list of those that may lack it", one.signature)
		default:
			for _, call := range unqualifiedCalls(one.body) {
				t.Errorf("%s has no search_path of its own and calls %s without a schema", one.signature, call)
			}
		}
	}
}

// definers lists the functions that run with their owner's rights, by the end of their names, with the reason.
var definers = map[string]string{
	"_key_place":     "a place is behind rows that the writer does not see; it returns nothing else",
	"_key_enter":     "a trigger; it writes a note, which no other writer may",
	"_key_wait":      "the same",
	"_key_note":      "the same",
	"_key_move":      "a trigger; who replaces a row may not release it; it touches no other row",
	"_join_settled":  "the same",
	"_join_row":      "a row that is hidden is not one that is gone; it returns an id, and nothing else",
	"_record":        "a trigger; it writes a history, which no other writer may",
	"_give_slot":     "a trigger; it frees a slot, which no other role may",
	"_append_due":    "workers may not remove messages; it moves what is due to the log",
	"_parked_trim":   "workers may not remove messages; it removes what all have passed, after a fixed time",
	"_parked_retain": "workers may not record a loss; it passes over what the retention that operators set allows",
	"audit_trim":     "a trigger; it removes what is too old, which no other role may",
	"jobs_forget":    "a trigger; policies hide the attempts of a job that is deleted",
}

// has tells whether a list contains the end of a function's name.
func has(list map[string]string, name string) bool {
	for suffix := range list {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

var (
	text = regexp.MustCompile(`'[^']*'`)
	call = regexp.MustCompile(`(?i)(^|[^.\w"])([a-z_]\w*)\s*\(`)

	qualifiedOperator = regexp.MustCompile(`OPERATOR\(pg_catalog\.[^)]+\)`)
	operator          = regexp.MustCompile(`[-+*/<>=~!@#%^&|?]+`)
	// all other types here belong to the grammar
	unqualifiedType = regexp.MustCompile(`::(text|jsonb|uuid|timestamptz)\b`)
)

// unqualifiedCalls returns the functions, operators and types that a body names without a schema, and that a
// search_path could therefore replace. EXTRACT and keywords before a parenthesis belong to the grammar.
func unqualifiedCalls(body string) (calls []string) {
	body = qualifiedOperator.ReplaceAllString(text.ReplaceAllString(body, "''"), ",")
	calls = append(operator.FindAllString(body, -1), unqualifiedType.FindAllString(body, -1)...)
	for _, m := range call.FindAllStringSubmatch(body, -1) {
		if !slices.Contains([]string{"extract", "values", "perform", "if", "case", "when", "then", "else", "and", "or"},
			strings.ToLower(m[2])) {
			calls = append(calls, m[2])
		}
	}
	return calls
}

// The stored expressions of checks, indexes, defaults and triggers use PostgreSQL's operators, even if another role can
// create better matching operators in a schema on the migrator's search_path. Such operators would run as the role that
// writes a row.
func TestNoStoredExpressionHasOperatorsOfOthers(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, db: pgtest.New(t)}
	for _, operands := range [][2]string{{"float8", "int4"}, {"float8", "int8"}, {"float8", "numeric"},
		{"int8", "int4"}, {"int8", "numeric"}} {
		for _, operator := range []string{"=", ">", ">=", "<", "<="} {
			f.createOperator(operator, operands[0], operands[1])
		}
	}
	f.migrate(f.db.Pool)
	f.createOwnTable()
	if others := f.lines(`
		SELECT DISTINCT format('%s of %s', d.refobjid::regoperator, pg_describe_object(d.classid, d.objid, d.objsubid))
		FROM pg_depend AS d
		WHERE d.refclassid = 'pg_operator'::regclass AND d.refobjid IN (SELECT o.oid FROM pg_operator AS o WHERE o.oprnamespace = $1::regnamespace)
		  AND d.classid <> 'pg_operator'::regclass`, f.db.Schema); len(others) > 0 {
		t.Errorf("stored expressions use operators of another role: %q", others)
	}
}

// createOperator creates an operator for operands of which PostgreSQL would otherwise cast one.
func (f *fixture) createOperator(operator, left, right string) {
	f.t.Helper()
	f.exec(f.db.Pool, fmt.Sprintf("CREATE OR REPLACE FUNCTION somebodys(%[1]s, %[2]s) RETURNS boolean LANGUAGE sql "+
		"AS 'SELECT true'", left, right))
	f.exec(f.db.Pool, fmt.Sprintf("CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = somebodys)", operator,
		left, right))
}

func TestUnqualifiedCallsAreFound(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		"PERFORM pg_notify('a.b', 'c')": 1,
		"PERFORM pg_catalog.pg_notify('a(', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1)::bigint);": 0,
		`PERFORM "s"."f"(1), pg_catalog.now()`: 0,
		"RETURN lower ('x')":                   1,
		"RETURN 1 * 2":                         1,
		"RETURN a AND (b OR (c)) AND lower(d)": 1,
		"RETURN pg_catalog.now()::text":        1,
	} {
		if got := unqualifiedCalls(body); len(got) != want {
			t.Errorf("%s: found %v, want %d", body, got, want)
		}
	}
}
