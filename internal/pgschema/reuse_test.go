package pgschema_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
)

const shop = `
	CREATE DOMAIN price AS int CHECK (VALUE > 0);
	CREATE TABLE sold (id int GENERATED ALWAYS AS IDENTITY, price price, text text);
	CREATE INDEX sold_price_idx ON sold (price);
	CREATE TABLE shelf (name text PRIMARY KEY, items int NOT NULL);
	INSERT INTO shelf VALUES ('upper', 3), ('lower', 4);
	CREATE SEQUENCE receipt;
	CREATE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT sum(price) FROM sold';
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'nobody removes anything'; END $$;
	CREATE TRIGGER refuse BEFORE DELETE OR TRUNCATE ON shelf FOR EACH STATEMENT EXECUTE FUNCTION refuse();
	CREATE TRIGGER refuse BEFORE DELETE OR TRUNCATE ON sold FOR EACH STATEMENT EXECUTE FUNCTION refuse()`

// reuse runs a test in a schema with statements in it, and returns the schema. The tests here are not parallel, so that
// each gets what the last one left.
func reuse(t *testing.T, statements string, test func(*testing.T, *pgschema.DB)) (schema string) {
	t.Helper()
	return reuseFor(t, "", statements, test)
}

// reuseFor is reuse, for a test of these tables.
func reuseFor(t *testing.T, tables, statements string, test func(*testing.T, *pgschema.DB)) (schema string) {
	t.Helper()
	t.Run("", func(t *testing.T) {
		db := pgschema.NewReused(t, pgschema.Server(t), tables)
		db.Define(t, statements)
		schema = db.Schema
		test(t, db)
	})
	return schema
}

func exec(t *testing.T, db *pgschema.DB, statements string) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// wantNewShop fails unless the schema is as after its definition.
func wantNewShop(t *testing.T, db *pgschema.DB) {
	t.Helper()
	const query = `
		SELECT format('%s sold, shelf %s, receipt %s, id %s, %s written', (SELECT count(*) FROM sold),
			(SELECT string_agg(format('%s %s', name, items), ', ' ORDER BY items) FROM shelf),
			nextval('receipt'), nextval('sold_id_seq'),
			(SELECT sum(n_tup_ins) FROM pg_stat_user_tables WHERE relname = 'sold' AND schemaname = $1))`
	const want = "0 sold, shelf upper 3, lower 4, receipt 1, id 1, 0 written"
	var got string
	if scan(t, db, &got, query); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func privateServer(t *testing.T) {
	t.Helper()
	if os.Getenv(localpg.DatabaseURLEnv) != "" {
		t.Skip("schemas are reused only on a private server")
	}
}

func TestAReusedSchemaIsAsItWas(t *testing.T) {
	privateServer(t)
	seen := map[string]bool{}
	for n := range 9 { // more than other tests have left
		schema := reuse(t, shop, func(t *testing.T, db *pgschema.DB) {
			wantNewShop(t, db)
			exec(t, db, `
				INSERT INTO sold (price, text) SELECT g, repeat(md5(g::text), 500) FROM generate_series(1, 99) AS g;
				UPDATE shelf SET items = 9; INSERT INTO shelf VALUES ('new', 1);
				SELECT nextval('receipt'), count(*) FROM sold`)
		})
		if n == 8 && !seen[schema] {
			t.Error("no schema was reused")
		}
		seen[schema] = true
	}
	reuse(t, shop, wantNewShop)
}

func TestOtherStatementsStartFromAnEmptySchema(t *testing.T) {
	privateServer(t)
	reuse(t, shop, wantNewShop)
	reuse(t, "CREATE TABLE shelf ()", func(t *testing.T, db *pgschema.DB) {
		var relations string
		scan(t, db, &relations, "SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = $1::regnamespace")
		if relations != "shelf" {
			t.Errorf("got %s, want one shelf", relations)
		}
	})
	reuse(t, shop, wantNewShop)
}

func TestAChangedSchemaIsNotReused(t *testing.T) {
	privateServer(t)
	for _, change := range []string{
		"CREATE TABLE more ()",
		"CREATE VIEW more AS SELECT FROM sold",
		"CREATE INDEX ON sold (text)",
		"CREATE TYPE more AS ENUM ('a')",
		"ALTER TABLE sold ADD more int",
		"ALTER TABLE sold ALTER price SET NOT NULL",
		"ALTER TABLE sold ALTER text SET DEFAULT 'a'",
		"ALTER TABLE sold ALTER text SET STATISTICS 7",
		"ALTER TABLE sold ADD CHECK (price < 9)",
		"ALTER TABLE sold DISABLE TRIGGER refuse",
		"ALTER TABLE sold SET (fillfactor = 70)",
		"ALTER DOMAIN price ADD CHECK (VALUE < 9)",
		"ALTER SEQUENCE receipt INCREMENT 7",
		"ALTER FUNCTION total() STABLE",
		"CREATE OR REPLACE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
		"DROP INDEX sold_price_idx",
		"DROP FUNCTION total()",
		"DROP TABLE shelf",
		"CREATE POLICY own ON sold",
		"CREATE RULE own AS ON INSERT TO sold DO NOTHING",
		"GRANT SELECT ON sold TO PUBLIC",
		"GRANT SELECT (price) ON sold TO PUBLIC",
		"DO 'BEGIN EXECUTE ''GRANT USAGE ON SCHEMA '' || current_schema() || '' TO PUBLIC''; END'",
		"COMMENT ON TABLE sold IS 'a'",
		"COMMENT ON COLUMN sold.price IS 'a'",
		"COMMENT ON FUNCTION total() IS 'a'",
		"INSERT INTO sold (price) VALUES (1); ANALYZE sold",
	} {
		t.Run(change, func(t *testing.T) {
			changed := reuse(t, shop, func(t *testing.T, db *pgschema.DB) { exec(t, db, change) })
			reuse(t, shop, func(t *testing.T, db *pgschema.DB) {
				wantNewShop(t, db)
				var there bool
				const query = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = '%s' AND nspname <> $1)"
				scan(t, db, &there, fmt.Sprintf(query, changed))
				if there {
					t.Error("the changed schema was not dropped")
				}
			})
		})
	}
}

// Tests of other tables do not take a schema from each other, which would have to be dropped and created each time.
func TestASchemaIsReusedForTheSameTables(t *testing.T) {
	privateServer(t)
	none := func(*testing.T, *pgschema.DB) {}
	first := reuseFor(t, "shop", shop, none)
	if reuseFor(t, "bare", "CREATE TABLE bare ()", none) == first {
		t.Error("the schema was taken for other tables")
	}
	if second := reuseFor(t, "shop", shop, wantNewShop); second != first {
		t.Error("the schema was not reused")
	}
}

// The pools that a test opens itself may have a session that the server has not ended yet, too.
func TestASchemaThatAnotherPoolUsesIsNotReused(t *testing.T) {
	privateServer(t)
	var pool *pgxpool.Pool
	first := reuse(t, shop, func(t *testing.T, db *pgschema.DB) {
		config, err := pgxpool.ParseConfig(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		db.Watch(config)
		if pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
			t.Fatal(err)
		}
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	defer pool.Close()
	if second := reuse(t, shop, wantNewShop); second == first {
		t.Error("the schema was reused")
	}
}

func TestWhatIsDefinedLaterIsNotReused(t *testing.T) {
	privateServer(t)
	first := reuse(t, shop, func(t *testing.T, db *pgschema.DB) { db.Define(t, "CREATE TABLE more ()") })
	if second := reuse(t, shop, wantNewShop); second == first {
		t.Error("the schema was reused")
	}
}

// A process that a test has killed may have a session that the server has not ended yet.
func TestASchemaThatASessionUsesIsNotReused(t *testing.T) {
	privateServer(t)
	session, err := pgx.Connect(t.Context(), pgschema.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.Background())
	first := reuse(t, shop, func(t *testing.T, db *pgschema.DB) {
		if _, err := session.Exec(t.Context(), "SELECT count(*) FROM "+db.Schema+".sold"); err != nil {
			t.Fatal(err)
		}
	})
	if second := reuse(t, shop, wantNewShop); second == first {
		t.Error("the schema was reused")
	}
}

func TestNoSchemaIsReusedOnAServerThatOutlivesTheProcess(t *testing.T) {
	other, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Stop() })
	t.Run("", func(t *testing.T) {
		db := pgschema.NewReused(t, other.URL(), "")
		db.Define(t, shop)
	})
	check := pgschema.New(t, other.URL())
	var schemas int
	scan(t, check, &schemas, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 't\\_%' AND nspname <> $1")
	if schemas > 0 {
		t.Error("the schema was not dropped")
	}
}
