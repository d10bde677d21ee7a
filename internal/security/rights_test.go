package security_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
)

// A maintenance call by a worker's role that lacks one right fails, or does all that it does with that right. Whatever
// it did instead would be noticed by nobody.
func TestARightThatIsMissingIsRefused(t *testing.T) {
	f := newFixture(t)
	f.prepareMaintenance()
	calls := map[string][]string{
		"outbox": {"SELECT outbox_fold_step(1000, NULL, 0)", "SELECT outbox_purge(1000, '0')",
			"SELECT outbox_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10)",
			"SELECT outbox_reap_expired(1000)",
			"SELECT outbox_ack(owner_token, ARRAY[id]) FROM outbox WHERE status = 1"},
		"jobs": {"SELECT jobs_fold_step(1000, NULL, 0)", "SELECT jobs_purge(1000, '0')",
			"SELECT jobs_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10, 'slow')",
			"SELECT jobs_reap_expired(1000)",
			"SELECT jobs_ack(owner_token, ARRAY[id]) FROM jobs WHERE status = 1", "SELECT jobs_slot_sweep(1000)"},
	}
	for table, calls := range calls {
		for _, call := range calls {
			f.needsItsRights(table, call)
		}
	}
}

// needsItsRights tries a call without each of the rights on objects whose names begin with the table's.
func (f *fixture) needsItsRights(table, call string) {
	t := f.t
	t.Helper()
	rights := f.lines(`
		SELECT DISTINCT CASE WHEN $4 THEN a.privilege_type ELSE 'ALL' END || ' ON ' ||
			CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || c.oid::regclass
		FROM pg_class AS c, aclexplode(c.relacl) AS a
		WHERE c.relnamespace = $1::regnamespace AND a.grantee = $2::regrole AND starts_with(c.relname, $3)
		UNION ALL
		SELECT 'EXECUTE ON ROUTINE ' || p.oid::regprocedure FROM pg_proc AS p, aclexplode(p.proacl) AS a
		WHERE p.pronamespace = $1::regnamespace AND a.grantee = $2::regrole AND starts_with(p.proname, $3)
		ORDER BY 1`, f.db.Schema, f.role("worker"), table, pgtest.Full())
	whole, err := f.effect(call, "")
	must(t, err)
	if idle, err := f.effect("SELECT 1", ""); err != nil || whole == idle {
		t.Errorf("%s does nothing, even with all rights: the test shows nothing (%v)", call, err)
	}
	refused := 0
	for _, right := range rights {
		got, err := f.effect(call, right)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == forbidden:
			refused++
		case err != nil:
			t.Errorf("%s without %s: %v", call, right, err)
		case got != whole:
			t.Errorf("%s without %s says nothing, and leaves\n%s, with it\n%s", call, right, got, whole)
		}
	}
	if refused == 0 {
		t.Errorf("no right is needed for %s: the test shows nothing", call)
	}
}

// prepareMaintenance leaves something to do for each maintenance call: rows of keys and joins to release, rows past
// their retention, leases that have expired, and a slot of a job that has ended.
func (f *fixture) prepareMaintenance() {
	f.t.Helper()
	f.enqueueEverywhere(f.as("producer"))
	worker := f.as("worker")
	f.in(worker, f.configure)
	for range 2 {
		f.exec(worker, "SELECT outbox_fold_step(1000, NULL, 0)")
		f.exec(worker, "SELECT jobs_fold_step(1000, NULL, 0)")
		f.exec(worker, "SELECT outbox_fetch('00000000-002a-8000-8000-000000000000', '60 s', 3)")
		f.exec(worker, "SELECT jobs_fetch('00000000-002a-8000-8000-000000000000', '60 s', 3)")
		for _, table := range []string{"outbox", "jobs"} {
			f.exec(worker, fmt.Sprintf("SELECT %[1]s_ack(owner_token, ARRAY[id]) FROM %[1]s WHERE status = 1", table))
		}
	}
	f.exec(f.db.Pool, `INSERT INTO outbox (topic, payload, status, attempts, owner_token, locked_until)
		VALUES ('sent', '', 0, 0, NULL, NULL), ('sent', '', 1, 1, gen_random_uuid(), now() - interval '1 minute')`)
	f.exec(f.db.Pool, `INSERT INTO jobs (kind, queue, priority, args, status, attempts, owner_token, locked_until)
		VALUES ('print', 'other', 2, '{}', 1, 1, gen_random_uuid(), now() - interval '1 minute')`)
	f.exec(f.db.Pool, `INSERT INTO jobs_slot (job_id, queue, taken_at)
		SELECT gen_random_uuid(), 'other', now() - interval '1 hour' FROM generate_series(1, 2)`)
}

// effect returns what is in the tables after a call by the worker's role without one of its rights. Nothing of it
// stays.
func (f *fixture) effect(call, without string) (left string, err error) {
	f.t.Helper()
	tx, err := f.db.Pool.Begin(f.t.Context())
	must(f.t, err)
	defer tx.Rollback(f.t.Context())
	if without != "" {
		_, err = tx.Exec(f.t.Context(), fmt.Sprintf("REVOKE %s FROM %q", without, f.role("worker")))
		must(f.t, err)
	}
	_, err = tx.Exec(f.t.Context(), fmt.Sprintf("SET LOCAL ROLE %q", f.role("worker")))
	must(f.t, err)
	if _, err := tx.Exec(f.t.Context(), call, pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", err
	}
	_, err = tx.Exec(f.t.Context(), "RESET ROLE")
	must(f.t, err)
	var counts []string
	for _, table := range []string{"outbox", "jobs"} {
		counts = append(counts, fmt.Sprintf("(SELECT '%[1]s ' || coalesce(string_agg(format('%%s%%s', o.status, "+
			"CASE WHEN o.waiting THEN 'w' END), ' ' ORDER BY o.id), '') FROM %[1]s AS o)", table))
	}
	for _, table := range f.tables() {
		if !strings.HasPrefix(table, "outbox_") && !strings.HasPrefix(table, "jobs_") {
			continue
		}
		counts = append(counts, fmt.Sprintf("(SELECT '%[1]s ' || count(*) FROM %[1]s)", table))
	}
	must(f.t, tx.QueryRow(f.t.Context(), "SELECT concat_ws(', ', "+strings.Join(counts, ", ")+")").Scan(&left))
	return left, nil
}
