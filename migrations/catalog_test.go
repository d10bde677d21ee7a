package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// lines returns the results of a query with one text column, in byte order.
func lines(t *testing.T, pool *pgxpool.Pool, query string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	slices.Sort(list)
	return list
}

// contents lists everything in a schema: tables, functions, types, operators, and the columns, indexes, constraints,
// triggers, rules and defaults of its tables.
func contents(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	return lines(t, pool, `
		WITH RECURSIVE found AS (
			SELECT d.classid, d.objid
			FROM pg_depend AS d
			WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = $1::text::regnamespace
			UNION
			SELECT d.classid, d.objid
			FROM found AS f
			JOIN pg_depend AS d ON d.refclassid = f.classid AND d.refobjid = f.objid AND d.deptype IN ('a', 'i')
		)
		SELECT pg_describe_object(f.classid, f.objid, 0) FROM found AS f
		UNION ALL
		SELECT format('column %s of %s', a.attname, a.attrelid::regclass)
		FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
		WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped`, schema)
}

func TestDownOfEachMigrationTakesAllBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...)
	all := versions(migrations.Known())
	before := map[int64][]string{0: contents(t, db.Pool, db.Schema)}
	if len(before[0]) != 0 {
		t.Fatalf("a new schema has %v", before[0])
	}
	for _, v := range all {
		if _, err := m.UpTo(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		before[v] = contents(t, db.Pool, db.Schema)
	}
	for _, v := range backwards(append([]int64{0}, all...))[1:] {
		if _, err := m.DownTo(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if after := contents(t, db.Pool, db.Schema); !slices.Equal(after, before[v]) {
			t.Errorf("down to %d: %s", v, firstDifference(strings.Join(before[v], "\n"), strings.Join(after, "\n")))
		}
	}
}

// PostgreSQL grants every role the right to call new functions. The migrations revoke it, so that the right to use the
// schema is not enough.
func TestNoFunctionIsEverybodys(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	if open := lines(t, db.Pool, `
		SELECT p.oid::regprocedure::text
		FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
		WHERE p.pronamespace = $1::text::regnamespace AND a.grantee = 0 AND a.privilege_type = 'EXECUTE'`, db.Schema); len(open) > 0 {
		t.Errorf("PUBLIC may call\n%s", strings.Join(open, "\n"))
	}
}

// Validate has to know every core table that the migrations make, so that it notices a missing one.
func TestCoreTables(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	made := lines(t, db.Pool, `
		SELECT c.relname::text FROM pg_class AS c
		WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p') AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'`, db.Schema)
	known := slices.Sorted(slices.Values(migrations.CoreTables()))
	if !slices.Equal(made, known) {
		t.Errorf("the migrations make %v, the package knows %v", made, known)
	}
}

// Every migration except the leader table's is rendered from a domain's DDL, so that no file is forgotten when DDL
// changes.
func TestEveryMigrationHasASource(t *testing.T) {
	t.Parallel()
	for _, m := range migrations.Known() {
		if _, ok := domains[m.Name]; !ok && m.Name != "002_reaper" {
			t.Errorf("%s is rendered by no domain", m.Name)
		}
	}
}
