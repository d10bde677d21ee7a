package security_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func TestAViewerReads(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.db.Pool)
	viewer := f.as("viewer")
	for _, table := range f.tables() {
		f.exec(viewer, "SELECT * FROM "+table)
	}
	for _, table := range f.coreTables() {
		if stats, err := table.On(viewer).Stats(t.Context()); err != nil || stats.Ready == 0 {
			t.Errorf("%s: stats %+v, %v", table.Name(), stats, err)
		}
	}
	f.in(viewer, func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.jobs.List(ctx, tx, jobs.Filter{})
		_, err2 := f.timers.List(ctx, tx, timers.Filter{})
		_, err3 := f.outbox.Joins().List(ctx, tx, join.ListOptions{})
		_, err4 := f.jobs.Queues(ctx, tx)
		return cmp.Or(err, err2, err3, err4)
	})
	m, err := migrations.New(viewer, migrations.Options{Schema: f.db.Schema, Logger: quiet.Logger})
	must(t, err)
	must(t, m.Validate(t.Context()))
}

func TestEverybodyAsksForTheProtocol(t *testing.T) {
	f := newFixture(t)
	for _, role := range []string{"producer", "worker", "viewer", "operator"} {
		f.exec(f.as(role), "SELECT require(major, minor, features) FROM protocol()")
	}
}

// writers are the functions that write rows, by the end of their names.
var writers = map[string]string{"_enqueue": "rows", "_receive": "messages", "timers_set": "timers",
	"_start_join": "rows", "_start_batch": "rows", "_unique_hash": "keys of rows",
	"_enqueue_many": "rows", "_receive_many": "messages", "timers_set_many": "timers"}

func TestAViewerChangesNothing(t *testing.T) {
	f := newFixture(t)
	viewer := f.as("viewer")
	for _, table := range f.tables() {
		column := ask[string](f, "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::regclass AND "+
			"attnum = 1", table)
		f.refuses(viewer, forbidden, "INSERT INTO "+table+" DEFAULT VALUES")
		f.refuses(viewer, forbidden, "UPDATE "+table+" SET "+column+" = "+column)
		f.refuses(viewer, forbidden, "DELETE FROM "+table)
		f.refuses(viewer, forbidden, "SELECT FROM "+table+" FOR SHARE")
	}
	f.refuses(viewer, forbidden, "SELECT nextval('outbox_key_seq')")
	f.refusesDDL(viewer)
	functions := f.lines("SELECT p.oid::regprocedure::text FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace",
		f.db.Schema)
	if len(functions) < 60 {
		t.Errorf("only %d functions were looked at", len(functions))
	}
	for _, function := range functions {
		for _, role := range []string{"viewer", "producer"} {
			if strings.HasSuffix(function, "_join_row(uuid)") || strings.HasSuffix(function, "_topics(integer)") ||
				strings.HasSuffix(function, "_stats()") ||
				strings.Contains(function, "protocol(") || strings.Contains(function, "require(") ||
				function == "timers_get(text)" {
				continue // called by policies, or by everybody; reads with the caller's rights
			}
			name, _, _ := strings.Cut(function, "(")
			if role == "producer" && (has(writers, name) || function == "timers_cancel(text[])") {
				continue
			}
			if ask[bool](f, "SELECT has_function_privilege($1, $2::regprocedure, 'EXECUTE')", f.role(role), function) {
				t.Errorf("the %s may call %s", role, function)
			}
		}
	}
}

// Everything belongs to the owner, and PUBLIC has no rights.
func TestEverythingIsTheOwners(t *testing.T) {
	f := newFixture(t)
	if others := f.lines(`
		SELECT format('%s of %s', c.relname, c.relowner::regrole) FROM pg_class AS c
		WHERE c.relnamespace = $1::regnamespace AND c.relowner <> $2::regrole
		UNION ALL
		SELECT format('%s of %s', p.oid::regprocedure, p.proowner::regrole) FROM pg_proc AS p
		WHERE p.pronamespace = $1::regnamespace AND p.proowner <> $2::regrole
		UNION ALL
		SELECT format('%s of %s', d.typname, d.typowner::regrole) FROM pg_type AS d
		WHERE d.typnamespace = $1::regnamespace AND d.typtype = 'd' AND d.typowner <> $2::regrole`, f.db.Schema, f.role("owner")); len(others) > 0 {
		t.Errorf("not the owner's: %v", others)
	}
	if open := f.lines(`
		SELECT format('%s on %s', a.privilege_type, c.relname)
		FROM pg_class AS c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) AS a
		WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'S', 'v') AND a.grantee = 0
		UNION ALL
		SELECT format('%s on column %s of %s', a.privilege_type, t.attname, t.attrelid::regclass)
		FROM pg_attribute AS t JOIN pg_class AS c ON c.oid = t.attrelid, aclexplode(t.attacl) AS a
		WHERE c.relnamespace = $1::regnamespace AND a.grantee = 0
		UNION ALL
		SELECT format('%s on schema', a.privilege_type) FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
		WHERE n.oid = $1::regnamespace AND a.grantee = 0`, f.db.Schema); len(open) > 0 {
		t.Errorf("PUBLIC has %v", open)
	}
	if ask[bool](f, "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1", f.role("owner")) {
		t.Error("the owner can log in")
	}
	for _, role := range []string{"producer", "worker", "viewer"} {
		if ask[bool](f, "SELECT pg_has_role($1, $2, 'MEMBER')", f.role(role), f.role("owner")) {
			t.Errorf("the %s is a member of the owner", role)
		}
	}
}

func TestAMigratorMigratesAsTheOwner(t *testing.T) {
	f := newFixture(t)
	migrator := f.as("migrator")
	m, err := migrations.New(migrator, migrations.Options{Schema: f.db.Schema, Logger: quiet.Logger})
	must(t, err)
	_, err = m.DownTo(t.Context(), 0)
	must(t, err)
	f.migrate(migrator)
	must(t, m.Validate(t.Context()))
	f.refuses(f.as("worker"), forbidden, "SELECT FROM outbox") // until the rights are granted again
	f.grant(migrator)
	f.enqueueEverywhere(f.as("producer"))
	f.exec(f.as("worker"), "SELECT FROM outbox")
	if owner := ask[string](f,
		"SELECT relowner::regrole::text FROM pg_class WHERE oid = 'outbox'::regclass"); owner != f.role("owner") {
		t.Errorf("the outbox that the migrator made is %s's", owner)
	}
	f.refuses(migrator, forbidden, "CREATE ROLE "+f.prefix+"_more")
}

// The next run removes rights that a role was given by hand, and a run that finds nothing to change changes nothing.
func TestRolesConverge(t *testing.T) {
	f := newFixture(t)
	acls := func() []string {
		return f.lines(`
			SELECT format('%s %s', c.relname, a) FROM pg_class AS c, unnest(c.relacl) AS a WHERE c.relnamespace = $1::regnamespace
			UNION ALL SELECT format('%s.%s %s', t.attrelid::regclass, t.attname, a) FROM pg_attribute AS t JOIN pg_class AS c ON c.oid = t.attrelid, unnest(t.attacl) AS a WHERE c.relnamespace = $1::regnamespace
			UNION ALL SELECT format('%s %s', p.oid::regprocedure, a) FROM pg_proc AS p, unnest(p.proacl) AS a WHERE p.pronamespace = $1::regnamespace
			UNION ALL SELECT format('schema %s', a) FROM pg_namespace AS n, unnest(n.nspacl) AS a WHERE n.oid = $1::regnamespace
			ORDER BY 1`, f.db.Schema)
	}
	before := acls()
	f.exec(f.db.Pool, "GRANT SELECT (payload), UPDATE ON outbox TO "+f.role("producer")+
		"; GRANT EXECUTE ON FUNCTION outbox_fetch TO PUBLIC; GRANT SELECT ON jobs TO PUBLIC")
	if slices.Equal(acls(), before) {
		t.Fatal("the test gave nothing")
	}
	f.grant(f.db.Pool)
	if after := acls(); !slices.Equal(after, before) {
		t.Errorf("rights are now\n%q\nwant\n%q", after, before)
	}
}

// Tables whose names merely begin like ours are left alone.
func TestRolesTouchNothingElse(t *testing.T) {
	f := newFixture(t)
	f.exec(f.db.Pool, "CREATE TABLE outbox_archive (id int); CREATE TABLE jobs_2 (id int); CREATE FUNCTION "+
		"outbox_claims() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	f.grant(f.db.Pool)
	if changed := ask[int](f, `
		SELECT (SELECT count(*) FROM pg_class WHERE oid IN ('outbox_archive'::regclass, 'jobs_2'::regclass) AND (relacl IS NOT NULL OR relowner <> current_user::regrole))
			+ (SELECT count(*) FROM pg_proc WHERE oid = 'outbox_claims'::regproc AND (proacl IS NOT NULL OR proowner <> current_user::regrole))`); changed > 0 {
		t.Errorf("%d objects of others were changed", changed)
	}
	must(t, pgx.BeginFunc(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "DROP TABLE outbox_archive, jobs_2; DROP FUNCTION outbox_claims()")
		return err
	}))
}
