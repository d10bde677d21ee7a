package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pages returns how many pages of a table, its indexes and its TOAST table do reads, cached or not. The table's name is
// qualified. Do must use the pool, and nothing else may: its sessions are closed to learn what they read.
func Pages(t testing.TB, pool *pgxpool.Pool, table string, do func()) int {
	t.Helper()
	before := pagesSoFar(t, pool, table)
	do()
	return pagesSoFar(t, pool, table) - before
}

// pagesSoFar asks once no session has reads that it has not reported. A session reports them when it ends.
func pagesSoFar(t testing.TB, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	var sessions []int32
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		sessions = append(sessions, int32(conn.Conn().PgConn().PID()))
		conn.Release()
	}
	pool.Reset()
	ended := Await(Patience, func() bool {
		var left int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_get_activity(NULL) AS s "+
			"WHERE s.pid = ANY ($1::int[]) AND s.pid <> pg_backend_pid()", sessions).Scan(&left)
		return err == nil && left == 0
	})
	if !ended {
		t.Fatalf("sessions %v of the pool do not end", sessions)
	}
	err := pool.QueryRow(t.Context(), `
		SELECT sum(pg_stat_get_blocks_fetched(r.oid))::bigint FROM pg_class AS c
		CROSS JOIN LATERAL (SELECT c.oid UNION ALL SELECT i.indexrelid FROM pg_index AS i WHERE i.indrelid = c.oid
		    UNION ALL SELECT c.reltoastrelid) AS r
		WHERE c.oid = $1::regclass`, table).Scan(&n)
	if err != nil {
		t.Fatalf("counting the pages that were read of %s: %v", table, err)
	}
	return n
}
