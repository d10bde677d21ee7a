package alarms_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// asRole returns the same installation, as seen by a role with these privileges.
func (f *fixture) asRole(grants ...string) *fixture {
	f.Helper()
	role := f.Schema + "_role"
	f.exec("CREATE ROLE " + role)
	f.Cleanup(func() {
		if _, err := f.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			f.Error(err)
		}
	})
	f.exec("GRANT USAGE ON SCHEMA " + f.Schema + " TO " + role)
	for _, grant := range grants {
		f.exec("GRANT " + strings.NewReplacer("{alarms}", f.table, "{timers}", f.timers).Replace(grant) + " TO " + role)
	}
	config := f.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(f.Context(), config)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	other, db := *f, *f.DB
	db.Pool = pool
	other.DB, other.store = &db, f.alarms.On(pool)
	return &other
}

// apiRights are the privileges that the API needs: those of the producer in docs/security.md.
var apiRights = []string{
	"SELECT, INSERT (owner_did, user_id, kind), UPDATE (status, claimed_at, updated_at) ON {alarms}",
	"SELECT, INSERT (key), UPDATE (due_at) ON {timers}",
}

// A role that may not claim is reported when Run starts, and by every health check.
func TestARoleThatMayNotClaimIsToldAtOnce(t *testing.T) {
	t.Parallel()
	f := newAlarms(t).asRole(apiRights...)
	d := f.dispatcher(newRecorder(nil), quick())
	const want = "UPDATE (next_fire_at) on alarms, UPDATE (locked_until) on timers"
	for _, err := range []error{d.Check(t.Context()), d.Run(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want that it lacks %s", err, want)
		}
	}
	serveAPI(f, alarms.ServerOptions{}).do("", "GET", "/healthz", "").says(200)
	x := serveAPI(f, alarms.ServerOptions{Health: d.Check}).do("", "GET", "/healthz", "").says(503, `"ok":false`,
		`"status":"unavailable"`)
	if strings.Contains(string(x.body), "timers") {
		t.Errorf("strangers are told %s", x.body)
	}
}

// The health check reports every privilege that is revoked while the service runs.
func TestHealthNoticesRightsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	owner := newAlarms(t)
	f := owner.asRole("ALL ON {alarms}", "ALL ON {timers}")
	d := f.dispatcher(newRecorder(nil), quick())
	a := serveAPI(f, alarms.ServerOptions{Health: d.Check})
	a.do("", "GET", "/healthz", "").says(200)
	for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
		for _, table := range []string{owner.table, owner.timers} {
			owner.exec(fmt.Sprintf("REVOKE %s ON %s FROM %s_role", right, table, f.Schema))
			a.do("", "GET", "/healthz", "").says(503)
			owner.exec(fmt.Sprintf("GRANT %s ON %s TO %s_role", right, table, f.Schema))
			a.do("", "GET", "/healthz", "").says(200)
		}
	}
}

// Check fails if tables are missing, and if the database does not answer. Run only fails for the former, and waits for
// the database in the latter case.
func TestCheckOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, err := alarms.Open(alarms.Options{Schema: f.Schema + "_x",
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := alarms.NewDispatcher(f.Pool, a, newRecorder(nil), quick())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); err == nil {
		t.Error("tables that are not there are in order")
	}
	f.Pool.Close()
	if err := f.dispatcher(newRecorder(nil), quick()).Check(t.Context()); err == nil {
		t.Error("a database that does not answer is in order")
	}
}
