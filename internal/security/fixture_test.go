package security_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// SQLSTATEs of refusals.
const (
	forbidden    = "42501" // insufficient_privilege
	againstCheck = "23514" // check_violation
	outOfRange   = "22003" // numeric_value_out_of_range
)

// password is the password of every role of a fixture: the private server asks for none, but the user's server may.
const password = "not-a-secret"

var quiet = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

// A fixture is a schema with all tables and its six roles.
type fixture struct {
	t      *testing.T
	db     *pgtest.DB // as the superuser that created it
	prefix string
	own    *workqueue.Table // a table of the application's own

	outbox *outbox.Outbox
	inbox  *inbox.Inbox
	timers *timers.Timers
	alarms *alarms.Alarms
	kinds  *jobs.Registry
	jobs   *jobs.Client
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{t: t, db: pgtest.New(t), prefix: "r_" + strings.ToLower(rand.Text()), kinds: jobs.NewRegistry()}
	f.db.Define(t, tables(t, f.db.Schema))
	f.createOwnTable()
	f.openDomains()
	t.Cleanup(f.dropRoles)
	f.grant(f.db.Pool)
	for _, role := range []string{"migrator", "producer", "worker", "viewer", "operator"} {
		f.exec(f.db.Pool, "ALTER ROLE "+f.role(role)+" PASSWORD '"+password+"'")
	}
	return f
}

// tables returns the SQL of all migrations.
func tables(t testing.TB, schema string) string {
	t.Helper()
	text, err := migrations.SQL(migrations.FileOptions{Schema: schema})
	must(t, err)
	return text
}

func (f *fixture) migrate(pool *pgxpool.Pool) {
	f.t.Helper()
	m, err := migrations.New(pool, migrations.Options{Schema: f.db.Schema, Logger: quiet.Logger})
	must(f.t, err)
	_, err = m.Up(f.t.Context())
	must(f.t, err)
}

func ownSpec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema, Table: "letters",
		Columns: append([]workqueue.Column{{Name: "address", Type: "text", NotNull: true}, {Name: "text", Type: "text"},
			join.Column}, workqueue.ColumnsOf(func(_ *struct{}, c *workqueue.Columns) { keyed.Columns(c, nil) })...),
		Topics: workqueue.Topics{Columns: []string{"text"}},
		Unique: []string{"address"}, KeyColumn: keyed.KeyColumn, Sweeps: []string{keyed.SweepSuffix, join.Sweep},
		Folds: []workqueue.Fold{join.Fold, keyed.Fold},
	}
}

func (f *fixture) createOwnTable() {
	f.t.Helper()
	spec := ownSpec(f.db.Schema)
	for _, ddl := range []func(workqueue.Spec) (string, string, error){workqueue.Spec.DDL, keyed.DDL, join.DDL} {
		up, _, err := ddl(spec)
		must(f.t, err)
		f.db.Define(f.t, up)
	}
	var err error
	f.own, err = workqueue.Open(spec, quiet)
	must(f.t, err)
}

func (f *fixture) openDomains() {
	f.t.Helper()
	f.registerKinds()
	var errs [5]error
	f.outbox, errs[0] = outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: outbox.PerKey, Telemetry: quiet})
	f.inbox, errs[1] = inbox.Open(inbox.Options{Schema: f.db.Schema, DedupWindow: 30 * 24 * time.Hour,
		Telemetry: quiet})
	f.timers, errs[2] = timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.alarms, errs[3] = alarms.Open(alarms.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.jobs, errs[4] = jobs.Open(jobs.Options{Schema: f.db.Schema, Registry: f.kinds, Telemetry: quiet})
	must(f.t, errors.Join(errs[:]...))
}

// grant runs the SQL that Roles renders, for the migrations' tables and for the application's own.
func (f *fixture) grant(pool *pgxpool.Pool) {
	f.t.Helper()
	for _, o := range []migrations.RoleOptions{
		{Schema: f.db.Schema, Prefix: f.prefix},
		{Schema: f.db.Schema, Prefix: f.prefix, Tables: []migrations.RoleTable{{Name: "letters", Keyed: true,
			Join: true, Topics: true}}},
	} {
		text, err := migrations.Roles(o)
		must(f.t, err)
		_, err = pool.Exec(f.t.Context(), text)
		must(f.t, err)
	}
}

// role returns a role's name. A prefix of letters and digits needs no quotes.
func (f *fixture) role(name string) string { return f.prefix + "_" + name }

func (f *fixture) dropRoles() {
	ctx := context.Background()
	for _, name := range []string{"operator", "viewer", "worker", "producer", "migrator", "owner"} {
		for _, statement := range []string{"DROP OWNED BY " + f.role(name) + " CASCADE", "DROP ROLE " + f.role(name)} {
			if _, err := f.db.Pool.Exec(ctx, statement); err != nil {
				f.t.Errorf("%s: %v", statement, err)
			}
		}
	}
}

// as returns a pool that logs in as a role.
func (f *fixture) as(role string) *pgxpool.Pool {
	f.t.Helper()
	config, err := pgxpool.ParseConfig(f.db.URL)
	must(f.t, err)
	config.ConnConfig.User, config.ConnConfig.Password, config.MaxConns = f.role(role), password, 8
	pool, err := pgxpool.NewWithConfig(f.t.Context(), config)
	must(f.t, err)
	f.t.Cleanup(pool.Close)
	return pool
}

// exec runs statements in one transaction.
func (f *fixture) exec(pool *pgxpool.Pool, statements string, args ...any) {
	f.t.Helper()
	must(f.t, tryExec(f.t.Context(), pool, statements, args...))
}

func tryExec(ctx context.Context, pool *pgxpool.Pool, statements string, args ...any) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statements, args...)
		return err
	})
}

// in runs do in its own transaction, as an application would.
func (f *fixture) in(pool *pgxpool.Pool, do func(ctx context.Context, tx workqueue.Tx) error) {
	f.t.Helper()
	must(f.t, f.try(pool, do))
}

func (f *fixture) try(pool *pgxpool.Pool, do func(ctx context.Context, tx workqueue.Tx) error) error {
	return pgx.BeginFunc(f.t.Context(), pool, func(tx pgx.Tx) error { return do(f.t.Context(), workqueue.Pgx(tx)) })
}

// refuses fails the test unless the statement fails with the SQLSTATE. It is rolled back in any case.
func (f *fixture) refuses(pool *pgxpool.Pool, state, statement string, args ...any) {
	f.t.Helper()
	statement = strings.ReplaceAll(statement, "{schema}", f.db.Schema)
	tx, err := pool.Begin(f.t.Context())
	must(f.t, err)
	defer tx.Rollback(context.WithoutCancel(f.t.Context()))
	_, err = tx.Exec(f.t.Context(), statement, args...)
	f.isRefused(state, statement, err)
}

func (f *fixture) isRefused(state, what string, err error) {
	f.t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != state {
		f.t.Errorf("%s: %v, want SQLSTATE %s", what, err, state)
	}
}

func ask[T any](f *fixture, query string, args ...any) (v T) {
	f.t.Helper()
	must(f.t, f.db.Pool.QueryRow(f.t.Context(), strings.ReplaceAll(query, "{schema}", f.db.Schema), args...).Scan(&v))
	return v
}

// lines reads a query of one text column.
func (f *fixture) lines(query string, args ...any) []string {
	f.t.Helper()
	rows, err := f.db.Pool.Query(f.t.Context(), query, args...)
	must(f.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(f.t, err)
	return list
}

// tables returns the names of all tables of the schema.
func (f *fixture) tables() []string {
	f.t.Helper()
	tables := f.lines("SELECT c.relname::text FROM pg_class AS c WHERE c.relnamespace = $1::regnamespace AND "+
		"c.relkind = 'r' ORDER BY 1", f.db.Schema)
	if len(tables) < 20 {
		f.t.Errorf("there are only %d tables", len(tables))
	}
	return tables
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
