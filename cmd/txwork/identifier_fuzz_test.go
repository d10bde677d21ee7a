package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// Whatever the flags that name tables, columns and roles contain: either it is refused with a reason and nothing is
// printed, or the printed SQL works and changes nothing but its own objects.
func FuzzTableFlags(f *testing.F) {
	for _, s := range [][4]string{
		{"billing", "invoices", "customer", "shop"}, {"order", "user", "group", "select"}, {"_", "_", "_", "_"},
		{`a"; DROP SCHEMA public CASCADE; --`, "t", "c", "p"}, {"a", `t"; --`, "c", "p"}, {"a", "t", "c' OR true", "p"},
		{"a", "t", "c", `p"; ALTER ROLE postgres NOLOGIN; --`},
		{"a", "t", "c", "$txwork$"}, {"ä", "t", "c", "p"}, {"a", "tä", "c", "p"}, {"a", "t", "c:text", "p"},
		{"a", "t,u", "c", "p"}, {"a", "t:keys", "c", "p"},
		{"a", "t", "c", "pg_p"}, {"pg_a", "t", "c", "p"}, {"a", "-t", "-c", "-p"}, {"", "", "", ""},
		{"a", "t\x00", "c\n", "p\r"},
		{"a", strings.Repeat("t", 48), "c", strings.Repeat("p", 54)}, {"a", strings.Repeat("t", 49), "c", "p"},
		{"a", "t", "c", strings.Repeat("p", 55)},
		{strings.Repeat("s", 14), strings.Repeat("t", 48), strings.Repeat("c", 63), "p"}, {strings.Repeat("s", 15),
			strings.Repeat("t", 48), "c", "p"},
		{"a", "t", "xmin", "p"}, {"a", "t", "owner_token", "p"}, {"a", "outbox", "c", "p"}, {"a", "t", "lease_seconds",
			"p"}, {"a", "new", "old", "public"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	db := pgtest.New(f)
	if _, err := db.Pool.Exec(f.Context(), "CREATE TABLE bystander (id int); CREATE FUNCTION bystanding() RETURNS "+
		"int LANGUAGE sql AS 'SELECT 1'"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, schema, table, column, prefix string) {
		made := execute(t, t.Context(), nil, nil, "table", "new", "--schema="+schema, "--column="+column+
			":text:not-null", "--lane="+column, "--", table)
		roles := execute(t, t.Context(), nil, nil, "roles", "--schema="+schema, "--table="+table, "--prefix="+prefix)
		for _, r := range []result{made, roles} {
			if r.code != exitOK && (r.code != exitUsage || r.stdout != "" || r.stderr == "") {
				t.Fatalf("exit code %d, printed %q, said %q", r.code, r.stdout, r.stderr)
			}
		}
		if made.code != exitOK || schema == "public" || schema == db.Schema {
			return
		}
		up, _, _ := strings.Cut(made.stdout, "-- +goose Down")
		worksAlone(t, db, schema, table, prefix, up, roles.stdout)
	})
}

// worksAlone runs the printed SQL in a transaction that is rolled back.
func worksAlone(t *testing.T, db *pgtest.DB, schema, table, prefix, up, roles string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, err := db.Pool.Begin(ctx)
	must(t, err)
	defer tx.Rollback(context.WithoutCancel(ctx))
	before := bystanders(ctx, t, tx)
	table, _, _ = strings.Cut(table, ":") // the table without the part that --table of roles may have
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(ctx, statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run(up)
	if roles != "" {
		run(strings.NewReplacer("\nBEGIN;\n", "\n", "\nCOMMIT;\n", "\n").Replace(roles) + // all in one transaction
			";\nSET LOCAL search_path TO DEFAULT; RESET lock_timeout")
		run("SET LOCAL ROLE " + pgx.Identifier{prefix + "_worker"}.Sanitize())
	}
	run("SELECT FROM "+pgx.Identifier{schema, table + "_fetch"}.Sanitize()+"($1, '60 s', 1, '{lane}')",
		workqueue.NewOwnerToken())
	run("LISTEN " + pgx.Identifier{schema + "." + table}.Sanitize())
	run("RESET ROLE")
	if after := bystanders(ctx, t, tx); after != before {
		t.Fatalf("objects that must not change were %s and are %s", before, after)
	}
}

// bystanders describes objects that must not change.
func bystanders(ctx context.Context, t *testing.T, tx pgx.Tx) (all string) {
	t.Helper()
	must(t, tx.QueryRow(ctx, `
		SELECT format('%s %s %s %s %s', c, p, n.nspowner, n.nspacl, (SELECT count(*) FROM pg_class AS o WHERE o.relnamespace = n.oid))
		FROM pg_class AS c, pg_proc AS p, pg_namespace AS n
		WHERE c.oid = 'bystander'::regclass AND p.oid = 'bystanding'::regproc AND n.oid = c.relnamespace`).Scan(&all))
	return all
}
