package costs_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
)

// TestEveryClaimIsHeapOnly checks that of all updates only settles, which take a row out of the claim index, write to
// an index. That holds in a new table, and in one that has been filled and vacuumed before.
func TestEveryClaimIsHeapOnly(t *testing.T) {
	const n = 10_000
	t.Run("jobs", func(t *testing.T) {
		j := newLab(t).jobs()
		for range 2 {
			j.fill(n)
			j.wantHeapOnly(j.name, n, func(p *pgxpool.Pool) { j.inPhases(p, n, jobs.WorkerOptions{}, func() {}) })
		}
	})
	t.Run("unique jobs, whose acks free the keys", func(t *testing.T) {
		j := newLab(t).jobs()
		j.fill(1)
		j.exec(fmt.Sprintf("INSERT INTO %[1]s (kind, queue, priority, args, unique_key, unique_states) "+
			"SELECT kind, queue, priority, args, concat('u:', kind, chr(31), i), 0 FROM %[1]s, generate_series(2, %[2]d) AS i", j.name, n))
		j.settle()
		j.wantHeapOnly(j.name, n, func(p *pgxpool.Pool) { j.inPhases(p, n, jobs.WorkerOptions{}, func() {}) })
		var held int
		j.ok(j.db.QueryRow(j.Context(), "SELECT count(unique_key) FROM "+j.name).Scan(&held))
		if held > 0 {
			j.Errorf("%d done jobs hold their keys", held)
		}
	})
	t.Run("core", func(t *testing.T) {
		q := newLab(t).rows()
		for range 2 {
			q.insert(n)
			q.wantHeapOnly(q.name, n, func(p *pgxpool.Pool) { q.inPhases(p, n) })
		}
	})
}

// wantHeapOnly counts the updates of a table while a worker does n rows.
func (l *lab) wantHeapOnly(table string, n int64, work func(*pgxpool.Pool)) {
	l.Helper()
	all, hot := l.updates(table)
	pool := l.watched()
	work(pool)
	pool.Close()
	l.quiet()
	allAfter, hotAfter := l.updates(table)
	all, hot = allAfter-all, hotAfter-hot
	l.Logf("%d of %d updates are heap-only, %d settle", hot, all, n)
	if all < 2*n || all-hot > n {
		l.Errorf("%d of %d updates are heap-only, want all but those that settle %d rows", hot, all, n)
	}
}

// updates returns the counts of sessions that have ended.
func (l *lab) updates(table string) (all, heapOnly int64) {
	l.Helper()
	const query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = $1::regclass"
	l.ok(l.db.QueryRow(l.Context(), query, table).Scan(&all, &heapOnly))
	return all, heapOnly
}
