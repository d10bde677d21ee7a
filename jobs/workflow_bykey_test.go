package jobs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// keyedBy returns a workflow of a task a, and a task b that depends on it and has a key.
func keyedBy(g keyed.Rule) *jobs.Workflow {
	w := jobs.NewWorkflow("keyed")
	a := w.Task("a", jobs.Insert{Args: part{}})
	w.Task("b", jobs.Insert{Args: part{}, ByKey: g}, jobs.After(a))
	return w
}

func TestATaskEntersItsOrderedKeyWhenItsDependenciesAreDone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	key := keyed.Ordered{Key: "account 7"}
	other := f.enqueue(part{}, jobs.Insert{ByKey: key}).ID
	one, two := f.start(keyedBy(key)), f.start(keyedBy(key))
	f.ack(other)
	f.wantTasks(one.ID, "pending: a ready, b waits")
	f.wantTasks(two.ID, "pending: a ready, b waits")

	f.ack(two.Tasks["a"])
	f.wantTasks(two.ID, "pending: a done, b ready")
	f.ack(one.Tasks["a"])
	f.wantTasks(one.ID, "pending: a done, b waits") // behind the other workflow's b
	third := f.enqueue(part{}, jobs.Insert{ByKey: key}).ID
	f.ack(two.Tasks["b"])
	f.wantTasks(one.ID, "pending: a done, b ready")
	equal(t, "the job that came later", f.fate(third), "waits")
	f.ack(one.Tasks["b"])
	equal(t, "the job that came later", f.fate(third), "ready")
	f.wantTasks(one.ID, "completed: a done, b done")
	f.wantTasks(two.ID, "completed: a done, b done")
}

func TestATaskEntersItsLimitedKeyWhenItsDependenciesAreDone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	key := keyed.Limited{Key: "printer", MaxRunning: 2}
	var list []jobs.StartedWorkflow
	for range 3 {
		list = append(list, f.start(keyedBy(key)))
	}
	equal(t, "through", f.through("printer"), 0)
	for _, s := range list {
		f.ack(s.Tasks["a"])
	}
	equal(t, "through", f.through("printer"), 2)
	for range list {
		f.ack(ask[uuid.UUID](f, "SELECT id FROM "+f.table+" WHERE concurrency_key = 'printer' AND completed_at IS NULL AND "+
			"NOT waiting LIMIT 1"))
	}
	for _, s := range list {
		f.wantTasks(s.ID, "completed: a done, b done")
	}
}

// through returns how many jobs of a key may run now.
func (f *fixture) through(key string) int {
	f.Helper()
	f.fold()
	return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE concurrency_key = $1 AND completed_at IS NULL AND NOT waiting",
		key)
}

func TestATaskBehindAKeyCountsWhenItIsDone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	key := keyed.Ordered{Key: "account 7"}
	other := f.enqueue(part{}, jobs.Insert{ByKey: key}).ID
	w := jobs.NewWorkflow("")
	a := w.Task("a", jobs.Insert{Args: part{}, ByKey: key})
	w.Task("b", jobs.Insert{Args: part{}}, jobs.After(a))
	s := f.start(w)
	f.wantTasks(s.ID, "pending: a waits, b waits")
	f.ack(other)
	f.wantTasks(s.ID, "pending: a ready, b waits")
	f.ack(s.Tasks["a"])
	f.wantTasks(s.ID, "pending: a done, b ready")
}

func TestATaskThatIsCancelledNeverComesToItsKey(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	key := keyed.Ordered{Key: "account 7"}
	s := f.start(keyedBy(key))
	f.fail(s.Tasks["a"])
	f.wantTasks(s.ID, "failed: a failed, b cancelled")
	job := f.enqueue(part{}, jobs.Insert{ByKey: key}).ID
	equal(t, "the next of its key", f.fate(job), "ready")
	f.redrive(s.Tasks["b"]) // only now does it enter its key
	equal(t, "the redriven task", f.fate(s.Tasks["b"]), "waits")
	f.ack(job)
	equal(t, "the redriven task", f.fate(s.Tasks["b"]), "ready")
}

// A waiting task is cancelled and then redriven. It is in its key from then on, and stays there when its dependencies
// end.
func TestATaskThatIsInItsKeyAlreadyStaysThere(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]keyed.Rule{"serial": keyed.Ordered{Key: "k"}, "limited": keyed.Limited{Key: "k",
		MaxRunning: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			other := f.enqueue(part{}, jobs.Insert{ByKey: key}).ID
			s := f.start(keyedBy(key))
			f.inTx(func(tx workqueue.Tx) error {
				_, err := f.client.Cancel(f.Context(), tx, "", s.Tasks["b"])
				return err
			})
			f.redrive(s.Tasks["b"])
			f.ack(s.Tasks["a"])
			f.wantTasks(s.ID, "pending: a done, b waits")
			f.ack(other)
			f.wantTasks(s.ID, "pending: a done, b ready")
			f.ack(s.Tasks["b"])
			f.wantTasks(s.ID, "completed: a done, b done")
		})
	}
}

// A dead letter that parks the rows behind it in its key also fails the workflows of those rows.
func TestATaskThatIsParkedHasFailed(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	key := keyed.Ordered{Key: "k", OnFailure: keyed.Park}
	list := []jobs.StartedWorkflow{f.start(keyedBy(key)), f.start(keyedBy(key)), f.start(keyedBy(key))}
	for _, s := range list[:2] {
		f.ack(s.Tasks["a"])
	}
	f.fail(list[0].Tasks["b"])
	f.wantTasks(list[0].ID, "failed: a done, b failed")
	f.wantTasks(list[1].ID, "failed: a done, b failed")
	f.wantTasks(list[2].ID, "pending: a ready, b waits") // its b has not entered the key yet
	f.ack(list[2].Tasks["a"])
	f.wantTasks(list[2].ID, "failed: a done, b failed")
}

// Workers, retries, and processes that are killed: keyed rows and joins on one table, to the end.
func TestWorkflowsWithKeys(t *testing.T) {
	t.Parallel()
	for limit, key := range map[int]keyed.Rule{1: keyed.Ordered{Key: "k"}, 3: keyed.Limited{Key: "k", MaxRunning: 3}} {
		t.Run(fmt.Sprintf("%T", key), func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, func(o *jobs.Options) { o.Retry, o.MaxAttempts = atOnce, 1000 })
			f.doParts()
			var running, most atomic.Int32
			jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[report]) error {
				for n := running.Add(1); n > most.Load(); {
					most.CompareAndSwap(most.Load(), n)
				}
				pgtest.Pass(time.Millisecond) // so that jobs that run at the same time are seen
				running.Add(-1)               // before the settle lets the next job through
				if job.Attempt == 1 && job.Args.Month%2 == 0 {
					return errNotYet
				}
				return job.Tx(ctx, trace(ctx, job.ID))
			}, jobs.KindOptions[report]{})
			f.work(jobs.WorkerOptions{})
			f.work(jobs.WorkerOptions{})
			f.dieNowAndThen()
			var list []jobs.StartedWorkflow
			for n := range pgtest.Size(10, 30) {
				w := jobs.NewWorkflow("")
				a := w.Task("a", jobs.Insert{Args: part{}})
				b := w.Task("b", jobs.Insert{Args: report{n}, ByKey: key}, jobs.After(a))
				c := w.Task("c", jobs.Insert{Args: report{n}, ByKey: key}, jobs.After(a))
				w.Task("d", jobs.Insert{Args: part{}}, jobs.After(b, c))
				list = append(list, f.start(w))
			}
			for _, s := range list {
				f.awaitJoin(s.ID, join.Completed)
			}
			equal(t, "effects", ask[int](f, "SELECT count(*) FROM effect"), 4*len(list))
			equal(t, "jobs with an effect", ask[int](f, "SELECT count(DISTINCT job_id) FROM effect"), 4*len(list))
			if int(most.Load()) > limit {
				t.Errorf("%d jobs of the key ran at once, want %d at most", most.Load(), limit)
			}
		})
	}
}
