package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// During a deployment, processes of the older version still start, also those that migrate when they start.
func TestUpOfAnOlderLibrary(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	exec(t, db.Pool, newer+"; COMMENT ON TABLE jobs IS 'txwork core 1, version 2 since 1'")
	if applied := up(t, m); len(applied) != 0 {
		t.Errorf("applied %v", applied)
	}
	differences, err := m.Differences(t.Context())
	if err != nil || len(differences) != 1 || !differences[0].Harmless ||
		!strings.Contains(differences[0].Problem, "which the tables still serve: upgrade the library") {
		t.Errorf("%+v, %v", differences, err)
	}
	// Only the newer library knows how its migrations are taken back.
	if _, err := m.DownTo(t.Context(), latest()); !errors.Is(err, workqueue.ErrSchemaVersion) ||
		!strings.Contains(err.Error(), fmt.Sprintf("version %d", latest()+1)) {
		t.Errorf("down: %v", err)
	}
}

// A domain that is added by an older library gets the versions that this library knows.
func TestAnOlderLibraryAddsADomain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	only := func(d migrations.Domain) *migrations.Migrator {
		m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
			Domains: []migrations.Domain{d}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	up(t, only(migrations.Outbox))
	exec(t, db.Pool, newer+"; COMMENT ON TABLE outbox IS 'txwork core 1, version 2 since 1'")
	if applied := up(t, only(migrations.Inbox)); len(applied) != 1 || applied[0].Domain != migrations.Inbox {
		t.Errorf("applied %v", applied)
	}
}

// A client says for which protocol it was written, and is told what to do if the schema does not serve it.
func TestProtocol(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
		Domains: []migrations.Domain{migrations.Timers}})
	if err != nil {
		t.Fatal(err)
	}
	protocol := func(want string) {
		t.Helper()
		if got := value[string](t, db.Pool, "SELECT format('%s.%s %s', major, minor, features) FROM protocol()"); got != want {
			t.Errorf("the protocol is %s, want %s", got, want)
		}
	}
	// require asks for what a client needs. Without a column, it is served.
	require := func(args, column string, says ...string) {
		t.Helper()
		_, err := db.Pool.Exec(t.Context(), "SELECT require("+args+")")
		var pg *pgconn.PgError
		switch {
		case column == "" && err == nil:
		case column == "" || !errors.As(err, &pg) || pg.Code != "TXV01" || pg.ColumnName != column || pg.Hint == "":
			t.Errorf("require(%s): %+v", args, err)
		default:
			for _, text := range says {
				if !strings.Contains(pg.Message, text) {
					t.Errorf("require(%s): %q does not say %q", args, pg.Message, text)
				}
			}
		}
	}
	up(t, m)
	protocol("1.1 {audit,leader,process,timers,timers_schedule}")
	require("1, 1", "")
	require("1, 0, '{timers, leader}'", "")
	require("1, 2", "minor", "needs protocol 1.2", "has 1.1", "txwork migrate up")
	require("2, 0", "major", "needs protocol 2.0", "has 1.1", "txwork migrate up")
	require("1, 1, '{timers, jobs, outbox}'", "features", "jobs, outbox", "txwork migrate up")
	for parameter, args := range map[string]string{"major": "0, 1", "minor": "1, NULL",
		"features": "1, 1, '{timers, NULL}'"} {
		refusedArgument(t, db, "SELECT require("+args+")", parameter)
	}
	refusedArgument(t, db, "SELECT require(1, 1, NULL)", "features")

	// Tables go forward one by one. The oldest one counts, also one of the application's own, and no older client is
	// refused.
	exec(t, db.Pool, `COMMENT ON TABLE timers IS 'txwork core 3 since 2, version 3 since 2; new';
		COMMENT ON TABLE timers_schedule IS 'txwork core 3 since 2'; COMMENT ON TABLE leader IS 'txwork leader 2 since 1';
		CREATE TABLE mine (); COMMENT ON TABLE mine IS 'txwork core 2'; CREATE TABLE app ();
		COMMENT ON TABLE app IS 'txwork it is not'`)
	protocol(`1.2 {audit,leader,"leader 2",mine,process,timers,"timers 2","timers 3",timers_schedule}`)
	require("1, 1, '{timers}'", "")
	require("1, 2, '{timers, timers 3}'", "")
	require("1, 3", "minor", "needs protocol 1.3", "has 1.2")
	require("1, 2, '{timers 4}'", "features", "timers 4")

	// A major release removes something.
	def := value[string](t, db.Pool, "SELECT pg_get_functiondef('protocol'::regproc)")
	exec(t, db.Pool, strings.Replace(def, "SELECT 1,", "SELECT 2,", 1))
	require("1, 1", "major", "no longer serves clients before 2.0", "upgrade the client")
	require("2, 2", "")

	// A schema of which a client is not told its tables has a protocol, too.
	exec(t, db.Pool, "DROP TABLE timers, timers_schedule, leader, process, audit, mine CASCADE")
	protocol("2.0 {}")
}
