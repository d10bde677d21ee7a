package security_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// newRunning returns a schema with all domains, and without roles.
func newRunning(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{t: t, db: pgtest.New(t)}
	text, err := migrations.SQL(migrations.FileOptions{Schema: f.db.Schema, Domains: migrations.Domains()})
	must(t, err)
	f.db.Define(t, text)
	return f
}

// grantAnew runs the SQL of the roles, with a new prefix, as psql does. A timeout for a lock is no failure: the SQL is
// run again then.
func (f *fixture) grantAnew(ctx context.Context) error {
	f.t.Helper()
	f.prefix = "r_" + strings.ToLower(rand.Text())
	of := *f
	f.t.Cleanup(of.dropRoles)
	text, err := migrations.Roles(migrations.RoleOptions{Schema: f.db.Schema, Prefix: f.prefix,
		Domains: migrations.Domains()})
	must(f.t, err)
	conn, err := pgx.Connect(ctx, f.db.URL)
	must(f.t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		_, err := conn.Exec(ctx, text)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" {
			return err
		}
		f.t.Log(err)
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
}

// A transaction that has used a table, and then uses all others, meets the SQL of the roles while that waits for the
// table.
func TestTheRolesOfARunningSystemHoldNothingWhileTheyWait(t *testing.T) {
	f := newRunning(t)
	for _, table := range []string{"outbox", "outbox_key_seq", "outbox_log_3", "jobs", "leader", "schema_domain"} {
		application, err := f.db.Pool.Begin(t.Context())
		must(t, err)
		f.uses(application, table)
		ended := make(chan error, 1)
		go func() { ended <- f.grantAnew(t.Context()) }()
		if !pgtest.Await(5*time.Minute, func() bool {
			return ask[bool](f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))",
				application.Conn().PgConn().PID())
		}) {
			t.Fatalf("nobody waits for %s", table)
		}
		for _, other := range f.tables() {
			f.uses(application, other)
		}
		must(t, application.Commit(t.Context()))
		must(t, <-ended)
	}
}

// uses writes nothing, and locks as a statement that writes.
func (f *fixture) uses(tx pgx.Tx, table string) {
	f.t.Helper()
	statement := "LOCK TABLE " + table + " IN ROW EXCLUSIVE MODE"
	if strings.HasSuffix(table, "_seq") {
		statement = "SELECT nextval('" + table + "')"
	}
	if _, err := tx.Exec(f.t.Context(), statement); err != nil {
		f.t.Fatalf("an application fails at %s: %v", table, err)
	}
}

