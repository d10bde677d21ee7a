package costs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// connections counts the measured sessions.
func (l *lab) connections() int {
	l.Helper()
	return int(l.count("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = $2", watchedName,
		l.name))
}

// queues returns the options of a worker of n queues.
func queues(kinds *jobs.Registry, n int) (o jobs.WorkerOptions) {
	o.Registry = kinds
	for i := range n {
		o.Queues = append(o.Queues, jobs.QueueOptions{Name: fmt.Sprintf("queue_%d", i)})
	}
	return o
}

const (
	started = 3 * time.Second // long enough for everything that starts to settle down
	watched = 4 * time.Second
)

// watch counts what idle processes do during a period, in which they may do spare things, and perSecond of them each
// second. Because they may take long to settle down on a busy machine, it counts up to ten times, until the count is
// within that limit, and otherwise fails the test. The processes are still alive: they do something later.
func (l *lab) watch(what string, count func() int, perSecond, spare float64) {
	l.Helper()
	pgtest.Pass(started)
	first := count()
	within := false
	for try := 0; try < 10 && !within; try++ {
		begun, before := time.Now(), count()
		pgtest.Pass(watched)
		did, took := float64(count()-before), time.Since(begun).Seconds()
		within = did <= took*perSecond+spare
		l.Logf("%s: %.1f a second", what, did/took)
	}
	if !within {
		l.Errorf("%s: want at most %.1f a second, and %v more", what, perSecond, spare)
	}
	l.eventually("they do something", func() bool { return count() > first })
}

// TestIdleQueuesCostTheSame counts the connections and transactions of an idle process with many queues and a
// scheduler.
func TestIdleQueuesCostTheSame(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			j := newLab(t).jobs()
			kinds := jobs.NewRegistry()
			jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil },
				jobs.KindOptions[errand]{})
			w, err := jobs.NewWorker(j.watched(), j.client, queues(kinds, n))
			j.ok(err)
			stop := j.run(w)
			j.watch(fmt.Sprintf("transactions of %d idle queues", n), j.seen.transactions, idleTransactions, 1)
			var connections int
			// What a busy machine has opened at the start closes when it has not been used for a while.
			j.eventually(fmt.Sprintf("%d idle queues have 1 to %d connections", n, idleConnections), func() bool {
				connections = j.connections()
				return 1 <= connections && connections <= idleConnections
			})
			stop()
			t.Logf("%d idle queues: %d connections", n, connections)
		})
	}
}

// TestProcessesShareTheUpkeep counts the sweeps and folds of several processes that serve the same tables, with a job
// for tomorrow for which a sweep may be needed. One of the processes does them; the others only check regularly whether
// it is still there.
func TestProcessesShareTheUpkeep(t *testing.T) {
	t.Parallel()
	const queuesEach = 10
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			j := newLab(t).jobs()
			kinds := jobs.NewRegistry()
			jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil },
				jobs.KindOptions[errand]{})
			j.enqueue(j.db, 1, anErrand, jobs.Insert{Queue: "queue_0",
				ScheduledAt: time.Now().Add(24 * time.Hour)})
			for range n {
				w, err := jobs.NewWorker(j.watched(), j.client, queues(kinds, queuesEach))
				j.ok(err)
				defer j.run(w)()
			}
			j.watch(fmt.Sprintf("sweeps and folds of %d processes", n),
				func() int { return j.seen.matching(isUpkeep) }, upkeepStatements, float64(2*n+1))
		})
	}
}

// TestBusyQueuesShareConnections counts the connections besides the application's pool while all queues have jobs.
func TestBusyQueuesShareConnections(t *testing.T) {
	const n, each, rounds = 10, 200, 5
	j := newLab(t).jobs()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	w, err := jobs.NewWorker(j.watched(), j.client, queues(kinds, n))
	j.ok(err)
	defer j.run(w)()
	most := 0
	for range rounds {
		for i := range n {
			j.enqueue(j.db, each, anErrand, jobs.Insert{Queue: fmt.Sprintf("queue_%d", i)})
		}
		j.eventually("the jobs are done", func() bool {
			most = max(most, j.connections())
			return j.count("SELECT count(*) FROM "+j.name+" WHERE status <> $1", int(workqueue.Done)) == 0
		})
	}
	t.Logf("%d busy queues: %d connections", n, most)
	if most == 0 || most > busyConnections {
		t.Errorf("%d busy queues have %d connections, want 1 to %d", n, most, busyConnections)
	}
}

// oneByOne enqueues jobs into the queues in turn, each when the previous one is done.
func (j *jobTable) oneByOne(rounds, queues int) {
	j.Helper()
	for i := range rounds {
		j.enqueue(j.db, 1, anErrand, jobs.Insert{Queue: fmt.Sprintf("queue_%d", i%queues)})
		j.eventually("the job is done", func() bool {
			return j.count("SELECT count(*) FROM "+j.name+" WHERE status <> $1", int(workqueue.Done)) == 0
		})
	}
}

// TestANotificationCostsTheQueuesThatItConcerns counts the transactions of a process with many queues for each single
// job that arrives in one of them. The other queues have nothing to claim, and do not try.
func TestANotificationCostsTheQueuesThatItConcerns(t *testing.T) {
	const n, rounds = 20, 50
	j := newLab(t).jobs()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	w, err := jobs.NewWorker(j.watched(), j.client, queues(kinds, n))
	j.ok(err)
	defer j.run(w)()
	j.oneByOne(n, n)
	before, begun := j.seen.transactions(), time.Now()
	j.oneByOne(rounds, n)
	did, spare := j.seen.transactions()-before, idle(time.Since(begun)).commits
	t.Logf("%d queues: %d transactions for %d jobs", n, did, rounds)
	if limit := rounds*jobTransactions + spare; did == 0 || did > limit {
		t.Errorf("%d transactions for %d jobs that come alone, want at most %d", did, rounds, limit)
	}
}

// TestStatementsOfAJobThatComesAlone counts the statements of a single job's claim and settle, including empty claims.
func TestStatementsOfAJobThatComesAlone(t *testing.T) {
	const rounds = 50
	j := newLab(t).jobs()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	w, err := jobs.NewWorker(j.watched(), j.client, queues(kinds, 1))
	j.ok(err)
	defer j.run(w)()
	j.oneByOne(5, 1)
	before, begun := j.seen.beside(isWork), time.Now()
	j.oneByOne(rounds, 1)
	did, spare := j.seen.beside(isWork)-before, idle(time.Since(begun)).statements
	t.Logf("%d statements for %d jobs", did, rounds)
	if limit := rounds*jobStatements + spare; did == 0 || did > limit {
		t.Errorf("%d statements for %d jobs that come alone, want at most %d", did, rounds, limit)
	}
}
