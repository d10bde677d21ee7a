package reaper_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// note records that a table was maintained, as `txwork reap` and the procedures do.
func (db *database) note(tx pgx.Tx, table *workqueue.Table) error {
	db.t.Helper()
	_, err := tx.Exec(db.t.Context(), "SELECT "+db.Schema+".leader_note($1)", table.Name())
	return err
}

// noted runs note on the current leadership of a table, and returns the leadership after it.
func (db *database) noted(table *workqueue.Table) reaper.Leadership {
	db.t.Helper()
	if err := pgx.BeginFunc(db.t.Context(), db.Pool, func(tx pgx.Tx) error { return db.note(tx, table) }); err != nil {
		db.t.Fatal(err)
	}
	return *db.leader(table)
}

// recent reports whether a lease has just ended.
func recent(l reaper.Leadership) bool { return l.ExpiresIn <= 0 && l.ExpiresIn > -time.Minute }

func TestMaintenanceByTheProcedureIsNoted(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 2, expired)
	db.exec("CALL " + table.Name() + "_maintain()")
	if l := db.leader(table); l == nil || l.Term != 0 || l.Holder != uuid.Nil || !recent(*l) {
		t.Errorf("leadership %+v after the procedure", l)
	}
	if report := db.runOnce(db.options(), table); !report.Leader() || report.Tables[0].Term != 1 ||
		len(report.Unserved) > 0 {
		t.Errorf("report %+v, want the first term", report)
	}
}

// The procedure works even if it cannot note that it ran: a schema with only the application's own tables does not have
// the function for the note, and the role may lack the right to call it.
func TestMaintenanceByTheProcedureWithoutAPlaceForTheNote(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	maintained := func() {
		t.Helper()
		db.rows(table, 2, expired)
		db.exec("CALL " + table.Name() + "_maintain()")
		if n := db.count(table, workqueue.InProgress); n > 0 {
			t.Errorf("%d expired rows are left", n)
		}
	}
	db.exec("CREATE OR REPLACE FUNCTION leader_note(table_name text, problem text DEFAULT NULL) RETURNS void " +
		"LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$")
	maintained()
	db.exec("DROP FUNCTION leader_note(text, text)")
	maintained()
	if l := db.leader(table); l != nil {
		t.Errorf("leadership %+v", l)
	}
}

func TestMaintenanceByOthersMovesNoTerm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lease string
		moves bool
	}{
		"after the lease": {"-3 hours", true},
		"in the lease":    {"1 hour", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			table, other := db.table(workqueue.Spec{Table: "work"}), db.table(workqueue.Spec{Table: "other"})
			holder := uuid.New()
			db.lead(table, holder, 7, test.lease)
			db.lead(other, holder, 8, "-2 hours")
			l := db.noted(table)
			if recent(l) != test.moves || l.Term != 7 || l.Holder != holder {
				t.Errorf("leadership %+v", l)
			}
			if l := db.leader(other); recent(*l) || l.Term != 8 {
				t.Errorf("leadership of another table %+v", l)
			}
		})
	}
}

// A lease that was granted in the future is void, because the clock has been set back.
func TestMaintenanceByOthersAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "2 hours")
	db.exec("UPDATE leader SET granted_at = now() + interval '1 hour'")
	if l := db.noted(table); !recent(l) {
		t.Errorf("leadership %+v", l)
	}
	if n := db.int("SELECT count(*) FROM leader WHERE granted_at > clock_timestamp()"); n > 0 {
		t.Error("the note is from the future")
	}
}

// Other maintenance does not wait for a reaper's batch, whose lease has expired, to note that it ran.
func TestMaintenanceByOthersWaitsForNoBatch(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "-3 hours")
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM leader FOR SHARE"); err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
		return db.note(tx, table)
	})
	if err != nil {
		t.Error(err)
	}
	if l := db.leader(table); recent(*l) || l.Term != 7 {
		t.Errorf("leadership %+v", l)
	}
}
