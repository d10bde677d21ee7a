package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func TestBadSchemaNames(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		"Upper", "9lives", "a-b", `a"; DROP SCHEMA public; --`, "a.b", " ", "ünicode", "pg_mine", "information_schema",
		strings.Repeat("a", 64), strings.Repeat("a", 60), // the second is too long only for its channel's name
	} {
		_, errs := ways(schema, t.TempDir())
		for way, err := range errs {
			if !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("%s with schema %q: %v", way, schema, err)
			}
		}
	}
}

func ways(schema, dir string) (*migrations.Migrator, map[string]error) {
	m, newErr := migrations.New(new(pgxpool.Pool), migrations.Options{Schema: schema})
	_, sqlErr := migrations.SQL(migrations.FileOptions{Schema: schema})
	_, exportErr := migrations.Export(dir, migrations.FileOptions{Schema: schema})
	_, fsErr := migrations.FS(migrations.FileOptions{Schema: schema})
	_, ddlErr := migrations.DDL(workqueue.Spec{Schema: schema, Table: "outbox"})
	return m, map[string]error{"New": newErr, "SQL": sqlErr, "FS": fsErr, "DDL": ddlErr, "Export": exportErr}
}

func TestNoPool(t *testing.T) {
	t.Parallel()
	if _, err := migrations.New(nil, migrations.Options{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Error(err)
	}
}

func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	for _, version := range []int64{-1, latest() + 1, 1 << 40} {
		_, upErr := m.UpTo(t.Context(), version)
		_, downErr := m.DownTo(t.Context(), version)
		if !errors.Is(upErr, workqueue.ErrInvalid) || !errors.Is(downErr, workqueue.ErrInvalid) {
			t.Errorf("version %d: up %v, down %v", version, upErr, downErr)
		}
	}
	if n := objects(t, db.Pool, db.Schema); n != 0 {
		t.Errorf("%d objects were made", n)
	}
}

func readOnly(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	config := db.Pool.Config()
	readOnly(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m := newMigrator(t, pool, db.Schema)

	if _, err := m.Up(t.Context()); !errors.Is(err, workqueue.ErrReadOnly) ||
		!strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("up: %v", err)
	}
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Errorf("down of nothing: %v", err)
	}
	up(t, newMigrator(t, db.Pool, db.Schema))
	if err := m.Validate(t.Context()); err != nil {
		t.Errorf("validate: %v", err)
	}
	if applied, err := m.Up(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("up of what is up to date: %v, %v", applied, err)
	}
	if _, err := m.DownTo(t.Context(), 0); !errors.Is(err, workqueue.ErrReadOnly) {
		t.Errorf("down: %v", err)
	}
}

func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	m := newMigrator(t, newPool(t, "postgres://nobody@127.0.0.1:1/none", 1), "txwork")
	_, upErr := m.Up(t.Context())
	_, downErr := m.DownTo(t.Context(), 0)
	_, statusErr := m.Status(t.Context())
	for method, err := range map[string]error{"up": upErr, "down": downErr, "status": statusErr,
		"validate": m.Validate(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "the database cannot be reached") {
			t.Errorf("%s: %v", method, err)
		}
		if errors.Is(err, workqueue.ErrSchemaVersion) {
			t.Errorf("%s takes a lost connection for a wrong version: %v", method, err)
		}
	}
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newMigrator(t, db.Pool, db.Schema).Up(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	exec(t, db.Pool, "INSERT INTO schema_version (version_id, is_applied) VALUES (99, true)")
	exec(t, db.Pool, "COMMENT ON TABLE outbox IS 'txwork core 1, version 3 since 2'")
	before := objects(t, db.Pool, db.Schema)
	_, upErr := m.Up(t.Context())
	_, downErr := m.DownTo(t.Context(), 0)
	for method, err := range map[string]error{"up": upErr, "down": downErr, "validate": m.Validate(t.Context())} {
		if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), "upgrade the library") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if after := objects(t, db.Pool, db.Schema); after != before {
		t.Errorf("%d objects became %d", before, after)
	}
	if all, err := m.Status(t.Context()); err != nil || len(all) != len(every())+1 || all[len(all)-1].Version != 99 ||
		!all[len(all)-1].Applied || all[len(all)-1].Name != "" {
		t.Errorf("status: %+v, %v", all, err)
	}
	if v, err := m.Version(t.Context()); err != nil || v != 99 {
		t.Errorf("version %d, %v", v, err)
	}
}

func TestFailedMigrationReportsWhatWasApplied(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE TABLE leader ()")
	m := newMigrator(t, db.Pool, db.Schema)
	applied, err := m.Up(t.Context())
	if err == nil || !strings.Contains(err.Error(), "002_reaper") ||
		!strings.Contains(err.Error(), "no migration recorded") {
		t.Errorf("%v", err)
	}
	if len(applied) != 1 || applied[0].Version != 1 {
		t.Errorf("applied %v", applied)
	}
	exec(t, db.Pool, "DROP TABLE leader")
	if applied := up(t, m); !slices.Equal(versions(applied), every()[1:]) {
		t.Errorf("then applied %v", applied)
	}
}

// roleOf makes a role and a pool whose sessions have it.
func roleOf(t *testing.T, db *pgtest.DB, role string) *pgxpool.Pool {
	t.Helper()
	if !value[bool](t, db.Pool, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") {
		t.Skip("only a superuser may make the role for this test")
	}
	exec(t, db.Pool, "CREATE ROLE "+role)
	t.Cleanup(func() {
		execContext(context.Background(), t, db.Pool, "DROP OWNED BY "+role)
		execContext(context.Background(), t, db.Pool, "DROP ROLE "+role)
	})
	config := db.Pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A role that may create in the schema needs no rights on the database.
func TestRoleWithoutCreateOnTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := db.Schema
	pool := roleOf(t, db, role)
	if _, err := newMigrator(t, pool, db.Schema+"_x").Up(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "needs CREATE on the database") {
		t.Errorf("a schema of its own: %v", err)
	}
	exec(t, db.Pool, "GRANT USAGE, CREATE ON SCHEMA "+db.Schema+" TO "+role)
	m := newMigrator(t, pool, db.Schema)
	up(t, m)
	if _, err := m.DownTo(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// What a role lacks is said by name: a right to create, or the ownership of what another role has made.
func TestRefusedRoleIsToldWhatItLacks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := db.Schema
	pool := roleOf(t, db, role)
	m := newMigrator(t, pool, db.Schema)
	lacks := func(what string, do func() error, want string) {
		t.Helper()
		if err := do(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Count(err.Error(), "CREATE on") > strings.Count(want, "CREATE on") {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	raise := func() error { _, err := m.Up(t.Context()); return err }
	exec(t, db.Pool, "GRANT USAGE ON SCHEMA "+db.Schema+" TO "+role)
	lacks("no right to create", raise, fmt.Sprintf("role %q needs USAGE and CREATE on schema %s", role, db.Schema))

	up(t, newMigrator(t, db.Pool, db.Schema))
	exec(t, db.Pool, "GRANT CREATE ON SCHEMA "+db.Schema+" TO "+role)
	exec(t, db.Pool, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+db.Schema+" TO "+role)
	owner := value[string](t, db.Pool, "SELECT current_user::text")
	lower := func() error { _, err := m.DownTo(t.Context(), 0); return err }
	lacks("tables of another role", lower, fmt.Sprintf("role %q does not own table %s.", role, db.Schema))
	lacks("tables of another role", lower, fmt.Sprintf(`migrate as %q, or GRANT "%[1]s" TO "%s"`, owner, role))

	exec(t, db.Pool, "GRANT "+owner+" TO "+role)
	if err := lower(); err != nil {
		t.Errorf("with the owner's rights: %v", err)
	}
}
