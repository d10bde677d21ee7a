package jobs_test

import (
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// ended writes n jobs that have ended: each hundredth is a dead letter, and those of the queue rare are few and old.
func (f *fixture) ended(n int) {
	f.Helper()
	f.exec("ALTER TABLE " + f.table + " DISABLE TRIGGER USER")
	f.exec(`INSERT INTO `+f.table+` (id, kind, queue, priority, args, status, attempts, created_at, completed_at, failed_at)
		SELECT (lpad(to_hex(i), 12, '0') || '70008000000000000000')::uuid, 'k' || i % 40,
			CASE WHEN i < 10 THEN 'rare' ELSE 'q' || i % 5 END, 1 + i % 3, '{}',
			CASE WHEN i % 100 = 1 THEN 3 ELSE 2 END, 1, at, at, CASE WHEN i % 100 = 1 THEN at END
		FROM generate_series(1, $1::int) AS i, LATERAL (SELECT now() - ($1 - i) * interval '1 s' AS at) AS a`, n)
	f.exec("ALTER TABLE " + f.table + " ENABLE TRIGGER USER")
	f.exec("VACUUM ANALYZE " + f.table)
}

// What has ended costs those nothing who look at what is alive.
func TestReadsOfLiveJobsSkipThoseThatEnded(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	for i := range 200 {
		queue := [2]string{"default", "other"}[i%2]
		f.enqueue(mail{}, jobs.Insert{Queue: queue, ByKey: keyed.Ordered{Key: "k"}})
	}
	f.ended(pgtest.Size(20_000, 200_000))
	read := func(what string, do func(tx workqueue.Tx) error) {
		pages := pgtest.Pages(t, f.Pool, f.table, func() { f.inTx(do) })
		t.Logf("%s: %d pages", what, pages)
		if pages > 500 {
			t.Errorf("%s reads %d pages, most of them of rows that have ended", what, pages)
		}
	}
	read("queues", func(tx workqueue.Tx) error {
		queues, err := f.client.Queues(t.Context(), tx)
		if len(queues) != 2 || queues[0].Ready+queues[0].Waiting != 100 {
			t.Errorf("queues are %+v", queues)
		}
		return err
	})
	for _, state := range []workqueue.State{workqueue.StateReady, workqueue.StateWaiting, workqueue.StateScheduled,
		workqueue.StateInProgress, workqueue.StateExpired} {
		read("list of "+string(state), func(tx workqueue.Tx) error {
			_, err := f.client.List(t.Context(), tx, jobs.Filter{State: []workqueue.State{state}, Limit: 20})
			return err
		})
	}
	read("list by status", func(tx workqueue.Tx) error {
		running := []workqueue.Status{workqueue.InProgress}
		_, err := f.client.List(t.Context(), tx, jobs.Filter{Status: running, Limit: 20})
		return err
	})
}
