package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// parts makes n jobs for a batch.
func parts(n int) []jobs.Insert {
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args = part{i}
	}
	return inserts
}

// progress summarizes the state of a batch.
func (f *fixture) progress(id uuid.UUID) string {
	f.Helper()
	s := f.batch(id)
	return fmt.Sprintf("%v: %d of %d succeeded, %d failed", s.Status, s.Succeeded, s.Expected, s.Failed)
}

func TestABatchEndsWhenAllItsJobsHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy             join.Policy
		fails              bool
		early, late        string
		onComplete, onFail string
	}{
		{join.WaitAll, false, "pending: 1 of 3 succeeded, 0 failed", "completed: 3 of 3 succeeded, 0 failed", "ready",
			"unneeded"},
		{join.WaitAll, true, "pending: 0 of 3 succeeded, 1 failed", "failed: 2 of 3 succeeded, 1 failed", "cancelled",
			"ready"},
		{join.FailFast, true, "failed: 0 of 3 succeeded, 1 failed", "failed: 0 of 3 succeeded, 1 failed", "cancelled",
			"ready"},
		{join.AnyOutcome, true, "pending: 0 of 3 succeeded, 1 failed", "completed: 2 of 3 succeeded, 1 failed", "ready",
			"unneeded"},
	} {
		t.Run(fmt.Sprint(c.policy, c.fails), func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			s := f.startBatch(jobs.Batch{Jobs: parts(3), OnComplete: noticeOf("done"), OnFail: noticeOf("failed"),
				Policy: c.policy})
			equal(t, "on complete at first", f.fate(s.OnComplete), "waits")
			if c.fails {
				f.fail(s.Jobs[0])
			} else {
				f.ack(s.Jobs[0])
			}
			equal(t, "after the first", f.progress(s.ID), c.early)
			f.ack(s.Jobs[1:]...)
			equal(t, "in the end", f.progress(s.ID), c.late)
			equal(t, "on complete", f.fate(s.OnComplete), c.onComplete)
			equal(t, "on fail", f.fate(s.OnFail), c.onFail)
		})
	}
}

func TestABatchMayHaveOneContinuationOrNone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	none := f.startBatch(jobs.Batch{Jobs: parts(1)})
	equal(t, "none", none.OnComplete == uuid.Nil && none.OnFail == uuid.Nil, true)
	one := f.startBatch(jobs.Batch{Jobs: parts(1), OnFail: noticeOf("failed")})
	equal(t, "on complete", one.OnComplete, uuid.Nil)
	f.fail(none.Jobs[0], one.Jobs[0])
	equal(t, "on fail", f.fate(one.OnFail), "ready")
}

func TestAnEmptyBatchCompletesAtOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{OnComplete: noticeOf("done")})
	equal(t, "batch", f.progress(s.ID), "completed: 0 of 0 succeeded, 0 failed")
	equal(t, "on complete", f.fate(s.OnComplete), "ready")
}

func TestNothingIsLeftOfARolledBackBatch(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	undo := errors.New("roll back")
	err := f.try(func(tx workqueue.Tx) error {
		_, err := f.client.StartBatch(f.Context(), tx, jobs.Batch{Jobs: parts(3), OnComplete: noticeOf("done")})
		return errors.Join(err, undo)
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	for _, table := range []string{"jobs", "jobs_join", "jobs_join_member"} {
		equal(t, table, ask[int](f, "SELECT count(*) FROM "+table), 0)
	}
}

// A job that finds more to do adds it in the transaction that settles it, so the batch cannot end in between.
func TestAJobAddsToItsBatch(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.exec("CREATE TABLE effect (job_id uuid)")
	type end struct {
		batch   uuid.UUID
		members int
	}
	ended := make(chan end, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		return job.Tx(ctx, func(tx pgx.Tx) error {
			if err := trace(ctx, job.ID)(tx); err != nil || job.Args.N == 0 {
				return err
			}
			more := []jobs.Insert{{Args: part{job.Args.N - 1}}, {Args: part{job.Args.N - 1}}}
			_, err := f.client.AddToBatch(ctx, workqueue.Pgx(tx), job.BatchID(), more...)
			return err
		})
	}, jobs.KindOptions[part]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[notice]) error {
		members, err := job.Dependencies(ctx)
		ended <- end{job.BatchID(), len(members)}
		return err
	}, jobs.KindOptions[notice]{})
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	const depth, all = 5, 63 // a binary tree
	s := f.startBatch(jobs.Batch{Jobs: []jobs.Insert{{Args: part{depth}}}, OnComplete: noticeOf("done")})
	equal(t, "what the end saw", receive(t, ended), end{s.ID, all})
	equal(t, "batch", f.progress(s.ID), fmt.Sprintf("completed: %d of %d succeeded, 0 failed", all, all))
	equal(t, "effects", ask[int](f, "SELECT count(DISTINCT job_id) FROM effect"), all)
}

func TestABatchThatHasEndedTakesNoMore(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(1)})
	f.ack(s.Jobs[0])
	f.inTx(func(tx workqueue.Tx) error {
		if _, err := f.client.AddToBatch(f.Context(), tx, s.ID, parts(1)...); !errors.Is(err, join.ErrEnded) {
			t.Errorf("error %v, want ErrEnded", err)
		}
		if _, err := f.client.AddToBatch(f.Context(), tx, uuid.New(), parts(1)...); !errors.Is(err,
			workqueue.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		return nil
	})
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 1)
}

func TestABatchMayBeLargerThanOneStatement(t *testing.T) {
	t.Parallel()
	const n = workqueue.MaxBatch + 1
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(n)})
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.client.AddToBatch(f.Context(), tx, s.ID, parts(1)...)
		return err
	})
	equal(t, "batch", f.progress(s.ID), fmt.Sprintf("pending: 0 of %d succeeded, 0 failed", n+1))
	f.cancelBatch(s.ID)
	equal(t, "live jobs", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE completed_at IS NULL"), 0)
}

func (f *fixture) cancelBatch(id uuid.UUID) (pending bool) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		pending, err = f.client.CancelBatch(f.Context(), tx, id, "never mind")
		return err
	})
	return pending
}

func TestCancelEndsEveryJobOfABatch(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(3), OnComplete: noticeOf("done"), OnFail: noticeOf("failed")})
	f.ack(s.Jobs[0])
	f.claim(s.Jobs[1])
	equal(t, "was pending", f.cancelBatch(s.ID), true)
	equal(t, "a job that was done", f.fate(s.Jobs[0]), "done")
	equal(t, "a job in progress", f.get(s.Jobs[1]).CancelledAt != nil, true)
	equal(t, "a job that was ready", f.fate(s.Jobs[2]), "cancelled")
	equal(t, "on complete", f.fate(s.OnComplete), "cancelled")
	equal(t, "on fail", f.fate(s.OnFail), "unneeded")
	equal(t, "batch", f.batch(s.ID).LastError, "never mind")
	equal(t, "was pending", f.cancelBatch(s.ID), false)
}

func TestCancelAfterTheEndCancelsWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(3), OnFail: noticeOf("failed"), Policy: join.FailFast})
	f.fail(s.Jobs[0])
	equal(t, "was pending", f.cancelBatch(s.ID), false)
	equal(t, "a job that was left", f.fate(s.Jobs[1]), "cancelled")
	equal(t, "on fail", f.fate(s.OnFail), "ready")
}

func TestADeadlineFailsABatch(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(2), OnFail: noticeOf("failed"), Deadline: time.Now().Add(-time.Second)})
	equal(t, "batch", f.progress(s.ID), "failed: 0 of 2 succeeded, 0 failed")
	equal(t, "on fail", f.fate(s.OnFail), "ready")
	equal(t, "a job", f.fate(s.Jobs[0]), "ready")
}

func TestARedrivenJobCountsAgain(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	s := f.startBatch(jobs.Batch{Jobs: parts(2), OnComplete: noticeOf("done")})
	f.fail(s.Jobs[0])
	f.redrive(s.Jobs[0])
	f.ack(s.Jobs...)
	equal(t, "batch", f.progress(s.ID), "completed: 2 of 2 succeeded, 0 failed")
}

func TestBatchesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[part]{})
	jobs.Declare(f.kinds, jobs.KindOptions[notice]{})
	jobs.Declare(f.kinds, jobs.KindOptions[report]{Unique: &jobs.Unique{}})
	unique := jobs.Insert{Args: part{}, Unique: &jobs.Unique{}}
	for name, c := range map[string]struct {
		batch jobs.Batch
		want  string
	}{
		"a label":    {jobs.Batch{Label: strings.Repeat("x", 256)}, "label has 256 bytes"},
		"a policy":   {jobs.Batch{Policy: 9}, "policy is 9"},
		"a deadline": {jobs.Batch{Deadline: time.Unix(1<<40, 0)}, "deadline is"},
		"no args": {jobs.Batch{Jobs: []jobs.Insert{{Args: part{}}, {}}, OnComplete: noticeOf("")},
			"job 2 of 2: args are nil"},
		"a unique job":  {jobs.Batch{Jobs: []jobs.Insert{unique}}, "Unique is set on a job of a batch"},
		"a unique kind": {jobs.Batch{Jobs: []jobs.Insert{{Args: report{}}}}, `Unique is set on kind "report"`},
		"what follows":  {jobs.Batch{Jobs: parts(1), OnComplete: &unique}, "OnComplete: Unique"},
		"what follows a failure": {jobs.Batch{Jobs: parts(1), OnComplete: noticeOf(""),
			OnFail: &jobs.Insert{Args: part{}, Delay: -1}},
			"OnFail: Delay is"},
	} {
		f.inTx(func(tx workqueue.Tx) error { // it commits: a refusal leaves the transaction usable
			_, err := f.client.StartBatch(f.Context(), tx, c.batch)
			if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			}
			return nil
		})
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
}
