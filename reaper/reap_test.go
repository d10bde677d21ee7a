package reaper_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

func TestExpiredRowsAreRequeuedOrFailed(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"default":         pgx.QueryExecModeCacheStatement,
		"behind a pooler": pgx.QueryExecModeExec,
		"simple protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			table := db.table(workqueue.Spec{Table: "work"})
			db.rows(table, 25, expired)
			db.rows(table, 3, exhausted)
			db.rows(table, 5, running)
			db.rows(table, 7, ready)

			o := db.options()
			o.BatchSize = 10
			report := db.runOnce(o, table)

			if !report.Leader() || report.Tables[0].Term != 1 || report.More {
				t.Errorf("report %+v, want a complete round of term 1", report)
			}
			wantCounts(t, report.Total(), reaper.Counts{Requeued: 25, Failed: 3})
			for status, want := range map[workqueue.Status]int{workqueue.Ready: 32, workqueue.InProgress: 5,
				workqueue.Failed: 3} {
				if got := db.count(table, status); got != want {
					t.Errorf("%d rows %v, want %d", got, status, want)
				}
			}
		})
	}
}

func TestLongJobsDoNotHideExpiredOnes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 500, running) // due before the others
	db.rows(table, 30, expired)
	o := db.options()
	o.BatchSize = 10
	wantCounts(t, db.runOnce(o, table).Total(), reaper.Counts{Requeued: 30})
}

func TestRunOnceAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 10, expired)
	db.rows(table, 10, done("8 days"))
	db.runOnce(db.options(), table)
	state := func() string {
		return query[string](t, db.Pool, "SELECT string_agg(w::text, '; ' ORDER BY id) FROM "+table.Name()+" w")
	}
	before := state()
	report := db.runOnce(db.options(), table)
	if after := state(); after != before {
		t.Errorf("the second round changed\n%s\nto\n%s", before, after)
	}
	if !report.Leader() || report.Tables[0].Term != 2 {
		t.Errorf("report %+v, want a round of term 2", report)
	}
	wantCounts(t, report.Total(), reaper.Counts{})
}

func TestRunRepeats(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.run(db.Pool, db.options(), table)
	for range 3 {
		db.rows(table, 10, expired)
		db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	}
	if l := db.leader(table); l.Term != 1 {
		t.Errorf("term %d after renewals, want 1", l.Term)
	}
}

// A table that cannot be served is reported and does not keep the others from being served.
func TestBadTableDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	missing := db.open(workqueue.Spec{Table: "missing"}, nil)
	outdated := db.table(workqueue.Spec{Table: "outdated"})
	db.exec("COMMENT ON TABLE " + outdated.Name() + " IS 'txwork core 0'")
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(outdated, 1, expired)
	db.rows(table, 1, expired)

	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{missing, outdated, table}, db.options())

	if !errors.Is(err, workqueue.ErrSchemaVersion) {
		t.Errorf("error %v, want ErrSchemaVersion", err)
	}
	for i, name := range []string{missing.Name(), outdated.Name()} {
		if r := report.Tables[i]; !strings.Contains(r.Error, name) {
			t.Errorf("error %q of %s does not name it", r.Error, name)
		}
	}
	wantCounts(t, report.Total(), reaper.Counts{Requeued: 1})
	if n := db.count(outdated, workqueue.InProgress); n != 1 {
		t.Error("a table of another version was touched")
	}
}

// An exclusive lock on one table, such as that of a migration, delays the other tables but does not stop them.
func TestLockedTableDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	locked := db.table(workqueue.Spec{Table: "locked"})
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 1, expired)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+locked.Name()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{locked, table}, db.options())
	if took := time.Since(start); took > pgtest.Slack {
		t.Errorf("waited %v for the locked table", took)
	}
	if err == nil || !strings.Contains(err.Error(), locked.Name()) {
		t.Errorf("error %v, want one that names %s", err, locked.Name())
	}
	wantCounts(t, report.Total(), reaper.Counts{Requeued: 1})
}

func wantCounts(t *testing.T, got, want reaper.Counts) {
	t.Helper()
	if got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}
