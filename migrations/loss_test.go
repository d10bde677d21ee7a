package migrations_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// What a statement loses is known for each one of the migrations, and each table that they make is among it.
func TestLossesOfTheMigrations(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`(?m)^CREATE TABLE "[^"]+"\."([^"]+)" [(]`) // partitions go with their table
	for _, m := range migrations.Known() {
		up, down := migrations.Text(m.Name)
		losses, err := migrations.Losses("", down)
		if err != nil {
			t.Error(err)
		}
		for _, table := range made.FindAllStringSubmatch(up, -1) {
			if !slices.Contains(losses, table[1]) {
				t.Errorf("%s: nobody counts the rows of %s", m.Name, table[1])
			}
		}
	}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	for down, want := range map[string][]string{
		`DROP INDEX "s"."t_idx";`: nil,
		"DROP INDEX CONCURRENTLY IF EXISTS \"s\".\"t_idx\";\nCOMMENT ON TABLE \"s\".\"t\" IS 'txwork core 1';":     nil,
		`ALTER TABLE "s"."t" DROP CONSTRAINT "t_check", ALTER COLUMN a DROP DEFAULT, ALTER COLUMN b SET NOT NULL;`: nil,
		"CREATE OR REPLACE FUNCTION \"s\".\"t_f\"() RETURNS void LANGUAGE plpgsql\nAS $txwork$\nBEGIN\n    DELETE FROM \"s\".\"t\";\n" +
			"END\n$txwork$;\n": nil,
		`ALTER TABLE "s"."t" DROP COLUMN "a", DROP IF EXISTS b CASCADE;`:                          {"t.a", "t.b"},
		`ALTER TABLE "s"."t" ADD CHECK (a IN (1, 2)), ALTER COLUMN "a" TYPE integer;`:             {"t.a"},
		"-- why\nDROP TABLE \"s\".\"t\",\n    \"s\".\"t_side\";\nALTER TABLE \"s\".\"t\" DROP a;": {"t", "t_side"},
		`DELETE FROM "s"."t" WHERE status = 7;`:                                                   {"t"},
		`UPDATE "s"."t" SET a = 0;`:                                                               {"t"},
		`TRUNCATE "s"."t";`:                                                                       {"t"},
		`DROP SEQUENCE "s"."t_seq";`:                                                              {"t_seq"},
	} {
		if got, err := migrations.Losses("", down); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s\nloses %v, %v; want %v", down, got, err, want)
		}
	}
	for _, down := range []string{`DROP DOMAIN "s"."t_time" CASCADE;`, `ALTER TABLE "s"."t" INHERIT "s"."u";`,
		"DO $txwork$\nBEGIN\n    PERFORM 1;\nEND\n$txwork$;", `SELECT "s"."t_forget"();`, `DROP SCHEMA "s" CASCADE;`} {
		if got, err := migrations.Losses("", down); err == nil {
			t.Errorf("%s\nis taken for losing %v", down, got)
		}
	}
}

// The values of a column are counted before it is dropped, except those that the migration gave it.
func TestValuesOfAColumn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	exec(t, db.Pool, "INSERT INTO outbox (topic, payload) SELECT 'mail', 'x' FROM generate_series(1, 5)")
	before := latest()
	migrations.Extend(m, migrations.Outbox, "tenant", `ALTER TABLE "{{schema}}"."outbox"
		ADD COLUMN tenant text NOT NULL DEFAULT 'none', ADD COLUMN labels json, ADD COLUMN since timestamptz DEFAULT now(),
		ADD COLUMN size integer GENERATED ALWAYS AS (octet_length(payload)) STORED;`,
		`ALTER TABLE "{{schema}}"."outbox" DROP COLUMN tenant, DROP COLUMN labels, DROP COLUMN since, DROP COLUMN size;`)
	up(t, m)
	counted := func() []migrations.TableRows {
		t.Helper()
		rows, err := m.RowsAbove(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	// Each row got the time of the migration, which no other migration can give it.
	since := migrations.TableRows{Table: "outbox", Column: "since", Rows: 5}
	if got := counted(); !slices.Equal(got, []migrations.TableRows{since}) {
		t.Errorf("counted %+v", got)
	}
	exec(t, db.Pool, "UPDATE outbox SET tenant = 'acme' WHERE id IN (SELECT id FROM outbox LIMIT 2)")
	exec(t, db.Pool, "UPDATE outbox SET labels = '{}' WHERE id IN (SELECT id FROM outbox LIMIT 3)")
	if got := counted(); !slices.Equal(got, []migrations.TableRows{{Table: "outbox", Column: "tenant", Rows: 2},
		{Table: "outbox", Column: "labels", Rows: 3}, since}) {
		t.Errorf("counted %+v", got)
	}
	if rows, err := m.RowsAbove(t.Context(), 0); err != nil || slices.ContainsFunc(rows,
		func(r migrations.TableRows) bool { return r.Column != "" }) {
		t.Errorf("values of a table that is dropped are counted, too: %+v, %v", rows, err)
	}
}
