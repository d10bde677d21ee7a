package workqueue_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A session that holds an ended row with FOR UPDATE for a long time does not delay the purge of other rows.
func TestPurgeWaitsForNobody(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "1s" }))
	table := endedRows(t, db)
	tx, err := db.Pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM "+table.Name()+" WHERE id IN (SELECT min(id::text)::uuid FROM "+
		table.Name()+" GROUP BY status) FOR UPDATE")
	must(t, err)

	q := table.On(db.Pool)
	for name, purge := range map[string]func(context.Context, time.Duration, int) (int, error){"done": q.PurgeDone,
		"failed": q.PurgeFailed} {
		if n, err := purge(t.Context(), time.Hour, 10); n != 1 || err != nil {
			t.Errorf("%s: purged %d rows, error %v, want the one that nobody holds", name, n, err)
		}
	}
}

// endedRows makes two Done rows and two Failed ones of the day before.
func endedRows(t *testing.T, db *pgtest.DB) *workqueue.Table {
	t.Helper()
	spec := workqueue.Spec{Schema: db.Schema, Table: "ended"}
	up, _, err := spec.DDL()
	must(t, err)
	_, err = db.Pool.Exec(t.Context(), up)
	must(t, err)
	_, err = db.Pool.Exec(t.Context(), "INSERT INTO "+db.Schema+".ended (status, completed_at, failed_at)"+
		" SELECT s, now() - interval '1 day', CASE WHEN s = 3 THEN now() - interval '1 day' END FROM unnest(ARRAY[2, "+
		"2, 3, 3]) AS s")
	must(t, err)
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return table
}

// A row with no attempts at all is refused in every state, even if it is inserted as ended.
func TestMaximumOfAttemptsIsAtLeastOne(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	table := endedRows(t, db)
	if _, err := db.Pool.Exec(t.Context(), "UPDATE "+table.Name()+
		" SET max_attempts = 0 WHERE status = 2"); err == nil {
		t.Error("a maximum of no attempts is taken")
	}
}
