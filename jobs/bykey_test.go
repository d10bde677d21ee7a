package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

type change struct {
	Account string
	N       int
}

func (change) Kind() string { return "change" }

// ordered and limited make rules whose key is the account.
func ordered(o keyed.Ordered) jobs.KindOptions[change] {
	return jobs.KindOptions[change]{Retry: atOnce, ByKey: func(c change) keyed.Rule {
		o := o
		o.Key = c.Account
		return o
	}}
}

func limited(l keyed.Limited) jobs.KindOptions[change] {
	return jobs.KindOptions[change]{Retry: atOnce, ByKey: func(c change) keyed.Rule {
		l := l
		l.Key = c.Account
		return l
	}}
}

func TestAKeysJobsRunOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	var mu sync.Mutex
	seen, running := map[string][]int{}, map[string]int{}
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[change]) error {
		c := job.Args
		mu.Lock()
		defer mu.Unlock()
		running[c.Account]++
		defer func() { running[c.Account]-- }()
		if running[c.Account] > 1 {
			t.Errorf("two jobs of account %s at once", c.Account)
		}
		if c.N%3 == 0 && job.Attempt == 1 {
			return errors.New("fails once, and keeps its place")
		}
		seen[c.Account] = append(seen[c.Account], c.N)
		return nil
	}, ordered(keyed.Ordered{}))
	const each = 10
	for n := range each {
		f.many(jobs.Insert{Args: change{"a", n}}, jobs.Insert{Args: change{"b", n}}, jobs.Insert{Args: change{"c", n}})
	}
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == 3*each
	})
	equal(t, "order", fmt.Sprint(seen), "map[a:[0 1 2 3 4 5 6 7 8 9] b:[0 1 2 3 4 5 6 7 8 9] c:[0 1 2 3 4 5 6 7 8 9]]")
}

func TestAKeyHasALimit(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	var running gauge
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[change]) error {
		defer running.enter()()
		pgtest.Pass(5 * time.Millisecond) // the work
		return nil
	}, limited(keyed.Limited{MaxRunning: 2}))
	const n = 30
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args = change{"a", i}
	}
	f.many(inserts...)
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == n
	})
	if most := running.most.Load(); most > 2 {
		t.Errorf("%d jobs of one key at once", most)
	}
}

func TestAKeyHasARate(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, nothing[change], limited(keyed.Limited{Rate: 10, Burst: 2}))
	const n = 6
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args = change{"a", i}
	}
	start := ask[time.Time](f, "SELECT clock_timestamp()")
	f.many(inserts...)
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == n
	})
	took := ask[time.Time](f, "SELECT max(completed_at) FROM "+f.table).Sub(start)
	if least := (n - 2) * time.Second / 10; took < least {
		t.Errorf("%d jobs were started within %v, the rate allows that in %v", n, took, least)
	}
}

func TestWhatWaitsBehindItsKeyIsSeenAndCancelled(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, ordered(keyed.Ordered{OnFailure: keyed.Block}))
	first, second := f.enqueue(change{"a", 1}).ID, f.enqueue(change{"a", 2}).ID
	f.fold()
	equal(t, "waiting", fmt.Sprint(f.get(first).Waiting, f.get(second).Waiting), "false true")
	f.inTx(func(tx workqueue.Tx) error {
		queues, err := f.client.Queues(f.Context(), tx)
		equal(t, "queue", queues[0], jobs.QueueInfo{Name: "default", Ready: 1, Waiting: 1})
		return err
	})
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.client.Cancel(f.Context(), tx, "no", second)
		return err
	})
	equal(t, "status", f.get(second).Status, workqueue.Failed)
}

// The kind's key is chosen by the args, whether they are passed as the registered type or as a pointer to it.
func TestAKeyIsChosenByTheArgsInEveryForm(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, ordered(keyed.Ordered{}))
	jobs.Declare(f.kinds, jobs.KindOptions[*mail]{ByKey: func(m *mail) keyed.Rule { return keyed.Ordered{Key: m.To} }})
	for _, args := range []jobs.Args{change{"a", 1}, &change{"a", 2}, &mail{"a"}, mail{"a"}} {
		id := f.enqueue(args).ID
		equal(t, fmt.Sprintf("key of %T", args), ask[string](f, "SELECT coalesce(concurrency_key, 'none') FROM "+f.table+
			" WHERE id = $1", id), "a")
	}
}

// Two calls that write jobs of the same keys in different orders do not deadlock.
func TestBatchesOfSeveralKeysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, ordered(keyed.Ordered{}))
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			keys := []string{"a", "b", "c", "d"}
			var inserts []jobs.Insert
			for k := range keys {
				inserts = append(inserts, jobs.Insert{Args: change{keys[(k+i)%len(keys)], i}})
			}
			if err := f.try(func(tx workqueue.Tx) error {
				_, err := f.client.EnqueueMany(f.Context(), tx, inserts...)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.fold()
	equal(t, "heads", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE NOT waiting"), 4)
}
