package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// inTheWay makes rows undeletable, as a foreign key of the application does: every n-th of those that are done.
func (db *database) inTheWay(table *workqueue.Table, every int) (ids []string) {
	db.t.Helper()
	db.exec("CREATE TABLE invoice (work uuid REFERENCES " + table.Name() + "); INSERT INTO invoice SELECT w.id FROM (" +
		"SELECT id, row_number() OVER (ORDER BY completed_at, id) AS n FROM " + table.Name() +
		" WHERE completed_at IS NOT NULL) AS w WHERE w.n % " + json.Number(itoa(every)).String() + " = 0")
	return query[[]string](db.t, db.Pool, "SELECT array_agg(work::text) FROM invoice")
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// One row that cannot be deleted is skipped, named and counted, and all others are deleted; those of other tables, too.
func TestARowInTheWayIsSkipped(t *testing.T) {
	t.Parallel()
	for _, every := range []int{300, 50, 2} {
		db := newDatabase(t)
		table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour, FailedRetention: time.Hour})
		later := db.table(workqueue.Spec{Table: "zzz", Retention: time.Hour})
		db.rows(table, 300, done("2 hours"))
		db.rows(table, 10, failed("2 hours"))
		db.rows(table, 5, expired)
		db.rows(later, 5, done("2 hours"))
		ids := db.inTheWay(table, every)
		o := db.options()
		o.BatchSize = 100
		report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table, later}, o)
		if !errors.Is(err, reaper.ErrSkipped) || !strings.Contains(err.Error(), table.Name()) {
			t.Errorf("error %v, want one that says that rows of %s were skipped", err, table.Name())
		}
		got := report.Tables[0]
		if got.Skipped != len(ids) || len(got.Rows) != min(len(ids), 10) || got.Error != "" {
			t.Fatalf("%d skipped, %d named, error %q; want %d", got.Skipped, len(got.Rows), got.Error, len(ids))
		}
		named := got.Rows[0]
		if !strings.Contains(strings.Join(ids, " "), named.ID.String()) || !strings.Contains(named.Error, "invoice") {
			t.Errorf("row %+v, want one of %v and why", named, ids)
		}
		wantCounts(t, report.Total(), reaper.Counts{Requeued: 5, PurgedDone: 310 - got.PurgedFailed - len(ids) + 5,
			PurgedFailed: got.PurgedFailed})
		if n := db.int("SELECT count(*) FROM " + table.Name() + " WHERE completed_at IS NOT NULL"); n != len(ids) {
			t.Errorf("%d ended rows are left, want the %d that are in the way", n, len(ids))
		}
		if l := db.leader(table); !strings.Contains(l.Problem, "skipped") {
			t.Errorf("leadership %+v does not tell of the skipped rows", l)
		}
	}
}

// The same for a row that cannot be requeued, and for a row that another transaction keeps from being deleted.
func TestOtherRowsInTheWay(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour})
	db.rows(table, 50, expired)
	db.rows(table, 50, done("2 hours"))
	db.exec("CREATE TABLE bad AS SELECT id FROM " + table.Name() + " WHERE status = 1 LIMIT 2; CREATE FUNCTION refuse() " +
		"RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF EXISTS (SELECT FROM bad AS b WHERE b.id = new.id) THEN " +
		"RAISE 'no' USING ERRCODE = '42501'; END IF; RETURN new; END $$; CREATE TRIGGER refuse BEFORE UPDATE ON " +
		table.Name() + " FOR EACH ROW EXECUTE FUNCTION refuse(); ALTER FUNCTION refuse() SET search_path = " + db.Schema)
	db.inTheWay(table, 50)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "UPDATE invoice SET work = work"); err != nil {
		t.Fatal(err)
	}
	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, db.options())
	if !errors.Is(err, reaper.ErrSkipped) || report.Tables[0].Skipped != 3 {
		t.Errorf("%+v, %v; want three skipped rows", report, err)
	}
	wantCounts(t, report.Total(), reaper.Counts{Requeued: 48, PurgedDone: 49})
}

// A reaper that skips rows leads on, deletes what comes later, and does not repeat itself.
func TestSkippedRowsAreNoReasonToResign(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour})
	db.rows(table, 1, done("2 hours"))
	db.inTheWay(table, 1)
	log := &logged{}
	o := db.options()
	o.Logger = log.logger()
	db.run(db.Pool, o, table)
	for range 3 {
		db.rows(table, 20, done("2 hours"))
		db.rows(table, 1, expired)
		db.await("deleted rows", func() bool {
			return db.count(table, workqueue.Done) == 1 && db.count(table, workqueue.InProgress) == 0
		})
	}
	if l := db.leader(table); l.Term != 1 || l.ExpiresIn <= 0 || !strings.Contains(l.Problem, "invoice") {
		t.Errorf("leadership %+v, want the first term and what is in the way", l)
	}
	if n := strings.Count(log.String(), "reaper skips rows"); n != 1 || strings.Contains(log.String(), "resigns") {
		t.Errorf("it says %d times that it skips rows:\n%s", n, log)
	}
	db.exec("DROP TABLE invoice")
	db.await("a leader without a problem", func() bool { return db.leader(table).Problem == "" })
}

// A sweep that fails does not keep the other sweeps from their work, nor retention.
func TestASweepThatFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour, Sweeps: []string{"bad", "good"}})
	db.exec("CREATE TABLE swept (n integer); " +
		"CREATE FUNCTION work_bad(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1 / ($1 - $1)'; " +
		"CREATE FUNCTION work_good(integer) RETURNS integer LANGUAGE sql AS 'INSERT INTO swept VALUES (1) RETURNING 0'; " +
		"ALTER FUNCTION work_good(integer) SET search_path = " + db.Schema)
	db.rows(table, 3, done("2 hours"))
	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, db.options())
	if err == nil || !strings.Contains(err.Error(), "bad: ") || strings.Contains(err.Error(), "good") {
		t.Errorf("error %v, want that of the sweep bad", err)
	}
	wantCounts(t, report.Total(), reaper.Counts{PurgedDone: 3})
	if n := db.int("SELECT count(*) FROM swept"); n != 1 {
		t.Errorf("the other sweep ran %d times", n)
	}
}

// The procedure of a table skips rows, too, says which, and does the rest.
func TestTheProcedureSkipsRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour})
	db.rows(table, 300, done("2 hours"))
	db.rows(table, 5, expired)
	ids := db.inTheWay(table, 100)
	_, err := db.Pool.Exec(t.Context(), "CALL "+table.Name()+"_maintain(50)")
	if err == nil || !strings.Contains(err.Error(), "purge_done skipped 3 rows") {
		t.Errorf("error %v, want that of three rows", err)
	}
	if n, in := db.count(table, workqueue.Done), db.count(table, workqueue.InProgress); n != len(ids) || in != 0 {
		t.Errorf("%d rows done, %d in progress; want the %d in the way", n, in, len(ids))
	}
	if l := db.leader(table); l == nil || !recent(*l) || !strings.Contains(l.Problem, "purge_done skipped 3 rows") {
		t.Errorf("leadership %+v", l)
	}
}

// Without a right, the rows are not the cause: none is named.
func TestAMissingRightIsNoRowInTheWay(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work", Retention: time.Hour})
	role, weak := db.role()
	db.exec("REVOKE DELETE ON " + table.Name() + " FROM " + role)
	for _, n := range []int{1, pgtest.Size(100, 1000)} {
		db.rows(table, n, done("2 hours"))
		report, err := reaper.RunOnce(t.Context(), weak, []*workqueue.Table{table}, db.options())
		if err == nil || errors.Is(err, reaper.ErrSkipped) || report.Tables[0].Skipped > 0 {
			t.Errorf("%+v, %v; want an error of the table", report, err)
		}
	}
}
