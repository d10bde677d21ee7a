package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// cleanup returns a workflow in which deploy depends on build and test, by the workflow's policy, announce depends on
// deploy, and tidy has a policy of its own.
func cleanup(configure ...func(*jobs.Workflow)) *jobs.Workflow {
	w := jobs.NewWorkflow("release")
	w.OnComplete, w.OnFail = noticeOf("released"), noticeOf("failed")
	for _, c := range configure {
		c(w)
	}
	build, test := w.Task("build", jobs.Insert{Args: part{}}), w.Task("test", jobs.Insert{Args: part{}})
	deploy := w.Task("deploy", jobs.Insert{Args: part{}}, jobs.After(build, test))
	w.Task("announce", jobs.Insert{Args: part{}}, jobs.After(deploy))
	w.Task("tidy", jobs.Insert{Args: part{}}, jobs.After(deploy), jobs.WithPolicy(join.AnyOutcome))
	return w
}

func taskPolicy(p join.Policy) func(*jobs.Workflow) {
	return func(w *jobs.Workflow) { w.TaskPolicy = p }
}

func policy(p join.Policy) func(*jobs.Workflow) { return func(w *jobs.Workflow) { w.Policy = p } }

func TestAFailedTaskCancelsWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup())
	f.fail(s.Tasks["build"])
	f.wantTasks(s.ID, "pending: build failed, test ready, deploy waits, announce waits, tidy waits")
	f.ack(s.Tasks["test"])
	f.wantTasks(s.ID, "pending: build failed, test done, deploy cancelled, announce cancelled, tidy ready")
	equal(t, "on fail", f.fate(s.OnFail), "waits")
	f.ack(s.Tasks["tidy"])
	f.wantTasks(s.ID, "failed: build failed, test done, deploy cancelled, announce cancelled, tidy done")
	equal(t, "on complete", f.fate(s.OnComplete), "cancelled")
	equal(t, "on fail", f.fate(s.OnFail), "ready")
	if reason := f.get(s.Tasks["deploy"]).LastError; !strings.Contains(reason, "1 of 2 steps failed") ||
		!strings.Contains(reason, "no good") {
		t.Errorf("a task that was cancelled says %q, want what failed before it", reason)
	}
}

func TestATaskMayFailFast(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup(taskPolicy(join.FailFast)))
	f.fail(s.Tasks["build"])
	f.wantTasks(s.ID, "pending: build failed, test ready, deploy cancelled, announce cancelled, tidy ready")
	f.ack(s.Tasks["test"], s.Tasks["tidy"])
	f.wantTasks(s.ID, "failed: build failed, test done, deploy cancelled, announce cancelled, tidy done")
}

func TestATaskMayRunWhateverHappened(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup(taskPolicy(join.AnyOutcome)))
	f.fail(s.Tasks["build"])
	f.wantTasks(s.ID, "pending: build failed, test ready, deploy waits, announce waits, tidy waits")
	f.fail(s.Tasks["test"])
	f.wantTasks(s.ID, "pending: build failed, test failed, deploy ready, announce waits, tidy waits")
}

func TestAWorkflowEndsByItsPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy             join.Policy
		early, late        join.Status
		onComplete, onFail string
	}{
		{join.WaitAll, join.Pending, join.Failed, "cancelled", "ready"},
		{join.FailFast, join.Failed, join.Failed, "cancelled", "ready"},
		{join.AnyOutcome, join.Pending, join.Completed, "ready", "unneeded"},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			s := f.start(cleanup(policy(c.policy)))
			f.fail(s.Tasks["build"])
			equal(t, "after the first failure", f.workflow(s.ID).Status, c.early)
			f.ack(s.Tasks["test"])
			f.ack(s.Tasks["tidy"])
			equal(t, "in the end", f.workflow(s.ID).Status, c.late)
			equal(t, "on complete", f.fate(s.OnComplete), c.onComplete)
			equal(t, "on fail", f.fate(s.OnFail), c.onFail)
		})
	}
}

func TestARetryCountsAsNothing(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.Retry = atOnce })
	f.exec("CREATE TABLE effect (job_id uuid)")
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		return job.Tx(ctx, func(tx pgx.Tx) error {
			if err := trace(ctx, job.ID)(tx); err != nil || job.Attempt > 2 {
				return err
			}
			return errors.New("not yet")
		})
	}, jobs.KindOptions[part]{})
	f.work(jobs.WorkerOptions{})
	s := f.start(diamond())
	f.awaitJoin(s.ID, join.Completed)
	for name, id := range s.Tasks {
		equal(t, name+": attempts", f.get(id).Attempts, 3)
		equal(t, name+": effects", ask[int](f, "SELECT count(*) FROM effect WHERE job_id = $1", id), 1)
	}
}

func TestALostLeaseCountsAsNothing(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind, func(o *jobs.Options) { o.Retry = atOnce })
	s := f.start(diamond())
	f.ack(s.Tasks["a"])
	dead := f.claimFor(time.Second, s.Tasks["b"])
	f.until("the lease is over", func() bool {
		reaped, err := f.queue().ReapExpired(f.Context(), 10)
		f.ok(err)
		return reaped.Requeued == 1
	})
	f.wantTasks(s.ID, "pending: a done, b ready, c ready, d waits")
	if _, err := f.queue().Ack(f.Context(), dead, ids(s.Tasks["b"])); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("an ack with the old claim: %v, want ErrLeaseLost", err)
	}
	f.ack(s.Tasks["c"])
	f.wantTasks(s.ID, "pending: a done, b ready, c done, d waits")
	f.ack(s.Tasks["b"])
	f.wantTasks(s.ID, "pending: a done, b done, c done, d ready")
}

func TestATaskWhoseAttemptsAreUsedUpByLostLeasesHasFailed(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind, func(o *jobs.Options) { o.MaxAttempts = 1 })
	s := f.start(diamond())
	f.claimFor(time.Second, s.Tasks["a"])
	f.until("the lease is over", func() bool {
		reaped, err := f.queue().ReapExpired(f.Context(), 10)
		f.ok(err)
		return reaped.Failed == 1
	})
	f.wantTasks(s.ID, "failed: a failed, b cancelled, c cancelled, d cancelled")
}

func TestARedriveResumesWhatStillWaits(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup())
	f.fail(s.Tasks["build"])
	f.redrive(s.Tasks["build"])
	f.ack(s.Tasks["build"], s.Tasks["test"])
	f.ack(s.Tasks["deploy"])
	f.ack(s.Tasks["announce"], s.Tasks["tidy"])
	f.wantTasks(s.ID, "completed: build done, test done, deploy done, announce done, tidy done")
}

// A task that was cancelled because of a failure stays cancelled until it is redriven, too. The workflow is still
// pending then, so it can complete after all.
func TestARedriveLeavesWhatWasCancelled(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup())
	f.fail(s.Tasks["build"])
	f.ack(s.Tasks["test"])
	f.redrive(s.Tasks["build"])
	f.ack(s.Tasks["build"])
	f.wantTasks(s.ID, "pending: build done, test done, deploy cancelled, announce cancelled, tidy ready")
	f.redrive(s.Tasks["deploy"], s.Tasks["announce"])
	f.ack(s.Tasks["deploy"], s.Tasks["announce"], s.Tasks["tidy"])
	f.wantTasks(s.ID, "completed: build done, test done, deploy done, announce done, tidy done")
	equal(t, "on complete", f.fate(s.OnComplete), "ready")
}

func TestAWorkflowThatHasEndedStaysSo(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(diamond())
	f.fail(s.Tasks["a"])
	f.redrive(s.Tasks["a"])
	f.ack(s.Tasks["a"])
	f.wantTasks(s.ID, "failed: a done, b cancelled, c cancelled, d cancelled")
	equal(t, "late", f.workflow(s.ID).Late, 1)
}

func TestCancellingOneTaskIsAFailureToThoseBehindIt(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(diamond())
	f.ack(s.Tasks["a"])
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.client.Cancel(f.Context(), tx, "not wanted", s.Tasks["b"])
		return err
	})
	f.ack(s.Tasks["c"])
	f.wantTasks(s.ID, "failed: a done, b cancelled, c done, d cancelled")
}

func (f *fixture) cancelWorkflow(s jobs.StartedWorkflow) (pending bool) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		pending, err = f.client.CancelWorkflow(f.Context(), tx, s.ID, "never mind")
		return err
	})
	return pending
}

func TestCancelEndsEveryTask(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	running := make(chan struct{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		if job.TaskName() != "build" {
			return nil
		}
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}, jobs.KindOptions[part]{})
	w := cleanup()
	w.Task("later", jobs.Insert{Args: part{}, ScheduledAt: time.Now().Add(time.Hour)})
	s := f.start(w)
	f.work(jobs.WorkerOptions{})
	<-running
	f.await(s.Tasks["test"], workqueue.Done)
	equal(t, "was pending", f.cancelWorkflow(s), true)
	f.await(s.Tasks["build"], workqueue.Failed)
	f.wantTasks(s.ID, "cancelled: build cancelled, test done, deploy cancelled, announce cancelled, tidy cancelled, "+
		"later cancelled")
	equal(t, "on complete", f.fate(s.OnComplete), "cancelled")
	equal(t, "on fail", f.fate(s.OnFail), "unneeded")
	equal(t, "was pending", f.cancelWorkflow(s), false)
}

func TestADeadlineFailsTheWorkflowAndTasksGoOnUntilTheyAreCancelled(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.start(cleanup(func(w *jobs.Workflow) { w.Deadline = time.Now().Add(-time.Second) }))
	f.wantTasks(s.ID, "failed: build ready, test ready, deploy waits, announce waits, tidy waits")
	equal(t, "on fail", f.fate(s.OnFail), "ready")
	f.ack(s.Tasks["build"])
	equal(t, "was pending", f.cancelWorkflow(s), false)
	f.wantTasks(s.ID, "failed: build done, test cancelled, deploy cancelled, announce cancelled, tidy cancelled")
	equal(t, "on fail", f.fate(s.OnFail), "ready")
}

func TestWhatIsNoWorkflowIsNotFound(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	job := f.enqueue(mail{}).ID
	f.inTx(func(tx workqueue.Tx) error {
		if _, err := f.client.Workflow(f.Context(), tx, job); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("Workflow: %v, want ErrNotFound", err)
		}
		if _, err := f.client.CancelWorkflow(f.Context(), tx, job, ""); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("CancelWorkflow: %v, want ErrNotFound", err)
		}
		return nil
	})
}
