package reaper_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A round adds what processes have flushed to the history of its tables, and the leases that it has ended. It counts
// these once, also if another session is adding meanwhile.
func TestARoundKeepsTheHistory(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	history := func() string {
		return query[string](t, db.Pool, `SELECT coalesce(concat_ws(' ', sum(done), sum(expired), sum(dead)), '') FROM history
			WHERE table_name = 'work' AND lane = '' AND step = 60`)
	}
	db.exec(`INSERT INTO history_flush SELECT 'work', 1, n, '', now(), 1, 0, 0, 0, 0, 0, '{}', '{}'
		FROM generate_series(1, 2500) AS n`)
	db.rows(table, 3, expired)
	db.rows(table, 2, exhausted)
	o := db.options()
	o.Lease = time.Hour // a third of it bounds what is added in one round
	db.runOnce(o, table)
	if got := history(); got != "2500 5 2" {
		t.Errorf("done, expired and dead are %q, want 2500 5 2", got)
	}

	other, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT history_merge('{}')"); err != nil {
		t.Fatal(err)
	}
	db.rows(table, 1, expired)
	db.runOnce(o, table)
	if got := history(); got != "2500 5 2" {
		t.Errorf("while another session merges: %q", got)
	}
}

// Nothing depends on the history.
func TestARoundWithoutAHistory(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"no function": "DROP FUNCTION history_merge CASCADE",
		"no table":    "DROP TABLE history",
		"a lock":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			table := db.table(workqueue.Spec{Table: "work"})
			o := db.options()
			if change != "" {
				db.exec(change)
				o.Lease = time.Hour // a third of it bounds how long the failure may take
			} else {
				tx, err := db.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(context.Background())
				if _, err := tx.Exec(t.Context(), "LOCK TABLE history", pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
			var log strings.Builder
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			db.rows(table, 3, expired)
			db.runOnce(o, table)
			if n := db.count(table, workqueue.InProgress); n > 0 {
				t.Errorf("%d rows are left", n)
			}
			said := strings.Contains(log.String(), "does not write the history")
			if said != (change != "") {
				t.Errorf("the log is\n%s", log.String())
			}
		})
	}
}
