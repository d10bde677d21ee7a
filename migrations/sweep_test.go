package migrations_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// catalogOf returns the objects of a test's schema, and the schema's name as definitions contain it.
func catalogOf(t *testing.T, db *pgtest.DB) (objects []migrations.Object, schema string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) (err error) {
		objects, schema, err = migrations.Catalog(t.Context(), tx, db.Schema)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects, schema
}

// Validate notices the absence of each object that the migrations make.
func TestEachThingIsMissed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	compare := migrations.Comparer(db.Schema)
	all, _ := catalogOf(t, db)
	if found := compare(all); len(found) > 0 || len(all) < 500 {
		t.Fatalf("%d things as they are made: %v", len(all), found)
	}
	for i, o := range all {
		missed := compare(slices.Delete(slices.Clone(all), i, i+1))
		if want := named(o, db.Schema) + " is missing"; !tells(missed, want) || missed.Err() == nil {
			t.Errorf("without it: %v\nlacks %q", missed, want)
		}
	}
}

// Validate compares every fact of every object. The test changes a fact of all objects of a kind at once, because they
// are independent of each other.
func TestEachFactIsCompared(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	compare := migrations.Comparer(db.Schema)
	all, _ := catalogOf(t, db)
	for kind, facts := range migrations.Compared {
		for _, fact := range facts {
			changed := slices.Clone(all)
			var want []string
			for i, o := range all {
				if o.Kind == kind {
					changed[i].Facts = maps.Clone(o.Facts)
					changed[i].Facts[fact] += "1"
					want = append(want, named(o, db.Schema))
				}
			}
			var got []string
			for _, d := range compare(changed) {
				got = append(got, d.Object)
				if d.Harmless != (fact == "storage parameters") {
					t.Errorf("%s: harmless is %v", d, d.Harmless)
				}
			}
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("with another %s of each %s: %q\nwant %q", fact, kind, got, want)
			}
		}
	}
}

func tells(found migrations.Differences, want string) bool {
	return slices.ContainsFunc(found, func(d migrations.Difference) bool { return strings.HasPrefix(d.String(), want) })
}

// named names an object as messages do.
func named(o migrations.Object, schema string) string {
	switch {
	case o.Kind == "column":
		return fmt.Sprintf("column %s.%s.%s", schema, o.Parent, o.Name)
	case o.Parent != "":
		return fmt.Sprintf("%s %s of %s.%s", o.Kind, o.Name, schema, o.Parent)
	}
	return fmt.Sprintf("%s %s.%s", o.Kind, schema, o.Name)
}

// drop returns the statement that drops an object and the objects that depend on it. The schema is on the search_path.
func drop(o migrations.Object) string {
	name, parent := pgx.Identifier{o.Name}.Sanitize(), pgx.Identifier{o.Parent}.Sanitize()
	switch o.Kind {
	case "domain", "type", "sequence", "table", "index":
		return fmt.Sprintf("DROP %s IF EXISTS %s CASCADE", strings.ToUpper(o.Kind), name)
	case "function":
		return fmt.Sprintf("DROP ROUTINE IF EXISTS %s CASCADE", o.Name)
	case "trigger":
		return fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", name, parent)
	case "column", "constraint":
		if o.Parent == "outbox_log" && o.Name == "slot" {
			return "SELECT" // partitions depend on it
		}
		return fmt.Sprintf("ALTER TABLE %s DROP %s IF EXISTS %s CASCADE", parent, strings.ToUpper(o.Kind), name)
	case "domain constraint":
		return fmt.Sprintf("ALTER DOMAIN %s DROP CONSTRAINT IF EXISTS %s", parent, name)
	}
	return "nothing drops a " + o.Kind
}

// All objects of a kind are dropped at once. Validate notices each, and its DDL restores each as it was. That DDL comes
// from definitions as PostgreSQL prints them, as in a dump.
func TestEachThingIsMadeAnew(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...)
	up(t, m)
	all, _ := catalogOf(t, db)
	for _, kind := range []string{"domain", "domain constraint", "type", "sequence", "column", "constraint", "index",
		"function", "trigger", "table"} {
		var dropped []string
		var statements strings.Builder
		for _, o := range all {
			if o.Kind == kind && drop(o) != "SELECT" && !strings.HasPrefix(o.Parent, "schema_") &&
				!strings.HasPrefix(o.Name, "schema_") {
				dropped = append(dropped, named(o, db.Schema)+" is missing")
				statements.WriteString(drop(o) + ";\n")
			}
		}
		exec(t, db.Pool, statements.String())
		found, err := m.Differences(t.Context())
		if err != nil || len(dropped) == 0 {
			t.Fatalf("%d of kind %s are gone: %v", len(dropped), kind, err)
		}
		for _, want := range dropped {
			if !tells(found, want) {
				t.Errorf("%v\nlacks %q", found, want)
			}
		}
		mend(t, db.Pool, found)
		if left, err := m.Differences(t.Context()); err != nil || len(left) != 0 {
			t.Fatalf("every %s was made anew: %v, %v", kind, left, err)
		}
	}
}

// Additions and changed storage parameters are not errors. Those that may matter are reported as harmless.
func TestHarmlessDifferences(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...)
	up(t, m)
	for _, test := range []struct{ change, want string }{
		{"CREATE INDEX mine ON outbox (created_at)", ""},
		{"ALTER TABLE outbox ADD COLUMN note text", ""},
		{"ALTER TABLE outbox ADD COLUMN tenant text NOT NULL DEFAULT current_setting('app.tenant', true)", ""},
		{"ALTER TABLE outbox ADD COLUMN size integer NOT NULL GENERATED ALWAYS AS (octet_length(payload)) STORED", ""},
		{"GRANT SELECT ON outbox TO PUBLIC", ""},
		{"GRANT EXECUTE ON FUNCTION outbox_fetch TO PUBLIC", ""},
		{"ALTER TABLE outbox ENABLE ROW LEVEL SECURITY", ""},
		{"ALTER TABLE outbox ENABLE ALWAYS TRIGGER outbox_announce", ""},
		{"ALTER INDEX outbox_claim_idx SET (fillfactor = 70)", ""},
		{"CREATE TABLE app (id int NOT NULL UNIQUE CHECK (id > 0))", ""},
		{"CREATE FUNCTION app() RETURNS integer LANGUAGE sql AS 'SELECT 1'", ""},
		{"ALTER TABLE outbox SET (fillfactor = 90)", "table {schema}.outbox has the storage parameters "},
		{"ALTER TABLE jobs_step SET (fillfactor = 90)",
			"table {schema}.jobs_step has the storage parameters fillfactor=90, needs none"},
		{"CREATE UNIQUE INDEX single ON outbox (key)", "index {schema}.single is not txwork's"},
		{"ALTER TABLE outbox ADD CONSTRAINT short CHECK (octet_length(topic) < 100)",
			"constraint short of {schema}.outbox is not txwork's"},
		{"CREATE TRIGGER audit AFTER INSERT ON outbox EXECUTE FUNCTION jobs_announce()",
			"trigger audit of {schema}.outbox is not txwork's"},
		{"CREATE RULE swallow AS ON DELETE TO outbox DO INSTEAD NOTHING",
			"rule swallow of {schema}.outbox is not txwork's"},
	} {
		before, err := m.Differences(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db.Pool, test.change)
		after, err := m.Differences(t.Context())
		if err != nil || after.Err() != nil {
			t.Errorf("%s: %v, %v", test.change, after.Err(), err)
		}
		want := strings.ReplaceAll(test.want, "{schema}", db.Schema)
		if n := len(after) - len(before); want == "" && n != 0 || want != "" && n != 1 {
			t.Errorf("%s: %d more differences of %v", test.change, n, after)
		}
		if want != "" && !slices.ContainsFunc(after, func(d migrations.Difference) bool {
			return d.Harmless &&
				strings.HasPrefix(d.String(), want)
		}) {
			t.Errorf("%s: %v\nlacks %q", test.change, after, want)
		}
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// Session settings that affect how values are printed do not affect the comparison.
func TestValidateWithAnySettings(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) {
		for name, setting := range map[string]string{"timezone": "Pacific/Auckland", "DateStyle": "German",
			"IntervalStyle":         "iso_8601",
			"quote_all_identifiers": "on", "extra_float_digits": "-5", "bytea_output": "escape",
			"default_transaction_isolation": "serializable"} {
			c.ConnConfig.RuntimeParams[name] = setting
		}
	}))
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...)
	up(t, m)
	if found, err := m.Differences(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// Validate also reports a broken table of versions.
func TestValidateOfABrokenTableOfVersions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...)
	up(t, m)
	exec(t, db.Pool, "ALTER TABLE schema_version DROP COLUMN is_applied")
	want := "column " + db.Schema + ".schema_version.is_applied is missing"
	if err := m.Validate(t.Context()); !errors.Is(err, workqueue.ErrSchemaVersion) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v\nlacks %q", err, want)
	}
}
