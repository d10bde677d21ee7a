package costs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
)

// TestStatementsByBatch counts the statements of draining jobs batch by batch: the claims of a queue's lanes and the
// settle.
func TestStatementsByBatch(t *testing.T) {
	for _, batch := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			const batches = 10
			j := newLab(t).jobs()
			j.fill(batch * batches)
			statements, commits, spare := j.traffic(func() { j.drainOnce(batch, batch*batches) })
			t.Logf("%d batches of %d jobs: %d statements, %d commits", batches, batch, statements, commits)
			if limit := drainStatements + batches*batchStatements + spare.statements; statements > limit {
				t.Errorf("%d batches of %d jobs took %d statements, want at most %d", batches, batch, statements, limit)
			}
			if limit := drainCommits + batches*batchCommits + spare.commits; commits > limit {
				t.Errorf("%d batches of %d jobs took %d commits, want at most %d", batches, batch, commits, limit)
			}
		})
	}
}

// TestStatementsOfWorker counts the statements of a worker under load, for each job.
func TestStatementsOfWorker(t *testing.T) {
	const n = 10_000
	j := newLab(t).jobs()
	j.fill(n)
	statements, commits, spare := j.traffic(func() {
		pool := j.watched()
		j.inPhases(pool, n, jobs.WorkerOptions{}, func() {})
		pool.Close()
	})
	t.Logf("%d jobs: %d statements, %d commits", n, statements, commits)
	if limit := n*workerStatements/1000 + spare.statements; statements > limit {
		t.Errorf("%d jobs took %d statements, want at most %d", n, statements, limit)
	}
	if limit := n*workerCommits/1000 + spare.commits; commits > limit {
		t.Errorf("%d jobs took %d commits, want at most %d", n, commits, limit)
	}
}

// TestStatementsOfIdleWorker counts the statements of an idle worker with the default options. On a busy machine it
// polls less often, never more.
func TestStatementsOfIdleWorker(t *testing.T) {
	t.Parallel()
	j := newLab(t).jobs()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	w, err := jobs.NewWorker(j.watched(), j.client, jobs.WorkerOptions{Registry: kinds})
	j.ok(err)
	defer j.run(w)()
	j.watch("statements of an idle worker", j.seen.sends, idleStatements/time.Minute.Seconds(), 0)
}

// drainOnce does n jobs in batches, without a worker's loop.
func (j *jobTable) drainOnce(batch, n int) {
	j.Helper()
	pool := j.watched()
	defer pool.Close()
	o := jobs.WorkerOptions{}
	o.Concurrency = batch
	drain, err := j.worker(pool, o, func() error { return nil }).Drain()
	j.ok(err)
	done, err := drain.Process(j.Context())
	j.ok(err)
	if done != n {
		j.Fatalf("%d jobs were done, want %d", done, n)
	}
}

// traffic counts what the measured sessions send during work, what PostgreSQL commits for them, and what an idle worker
// may do in that time: the slower the machine, the more of it is among what is counted.
func (l *lab) traffic(work func()) (statements, commits int, spare idling) {
	l.Helper()
	before := l.commits()
	sent, begun := l.seen.sends(), time.Now()
	work()
	spare = idle(time.Since(begun))
	return l.seen.sends() - sent, l.commits() - before, spare
}

// idling is what an idle worker may do in some time.
type idling struct{ statements, commits int }

func idle(d time.Duration) idling {
	return idling{int(d.Minutes() * idleStatements), int(d.Seconds() * idleTransactions)}
}

// commits counts the commits of the lab's database. Sessions report theirs when they end, so it waits until no session
// is left, and counts in a statement of its own from outside.
func (l *lab) commits() (n int) {
	l.Helper()
	l.db.Reset()
	l.outside(func(ctx context.Context, conn *pgx.Conn) error {
		for sessions := 1; sessions > 0; pgtest.Pass(time.Millisecond) { // bounded by ctx
			err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1",
				l.name).Scan(&sessions)
			if err != nil {
				return err
			}
		}
		return conn.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = $1", l.name).Scan(&n)
	})
	return n
}
