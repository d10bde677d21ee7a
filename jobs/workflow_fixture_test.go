package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// part is the args of the tasks of most workflows here.
type part struct{ N int }

func (part) Kind() string { return "part" }

// notice is the args of the jobs that continue a workflow or a batch.
type notice struct{ Text string }

func (notice) Kind() string { return "notice" }

func noticeOf(text string) *jobs.Insert { return &jobs.Insert{Args: notice{text}} }

// start starts a workflow in a transaction of its own.
func (f *fixture) start(w *jobs.Workflow) (s jobs.StartedWorkflow) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		s, err = f.client.StartWorkflow(f.Context(), tx, w)
		return err
	})
	return s
}

// startBatch starts a batch in a transaction of its own.
func (f *fixture) startBatch(b jobs.Batch) (s jobs.StartedBatch) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		s, err = f.client.StartBatch(f.Context(), tx, b)
		return err
	})
	return s
}

func (f *fixture) workflow(id uuid.UUID) (w jobs.WorkflowInfo) {
	f.Helper()
	f.fold()
	f.inTx(func(tx workqueue.Tx) (err error) {
		w, err = f.client.Workflow(f.Context(), tx, id)
		return err
	})
	return w
}

func (f *fixture) batch(id uuid.UUID) (s join.State) {
	f.Helper()
	f.fold()
	f.inTx(func(tx workqueue.Tx) (err error) {
		s, err = f.client.Batch(f.Context(), tx, id)
		return err
	})
	return s
}

// fate describes the state of a job in a word.
func fate(status workqueue.Status, waiting, cancelled bool) string {
	switch {
	case status == workqueue.Ready && waiting:
		return "waits"
	case status == workqueue.Done && cancelled:
		return "unneeded"
	case status == workqueue.Failed && cancelled:
		return "cancelled"
	}
	return status.String()
}

func (f *fixture) fate(id uuid.UUID) string {
	f.Helper()
	f.fold()
	i := f.get(id)
	return fate(i.Status, i.Waiting, i.CancelledAt != nil)
}

// wantTasks compares the states of a workflow and its tasks with a text such as "pending: a done, b waits".
func (f *fixture) wantTasks(id uuid.UUID, want string) {
	f.Helper()
	w := f.workflow(id)
	var tasks []string
	for _, t := range w.Tasks {
		tasks = append(tasks, t.Name+" "+fate(t.Status, t.Waiting, t.CancelledAt != nil))
	}
	equal(f, "workflow", w.Status.String()+": "+strings.Join(tasks, ", "), want)
}

// fold applies all notes, as workers do.
func (f *fixture) fold() {
	f.Helper()
	_, err := f.queue().Fold(f.Context())
	f.ok(err)
}

// claim claims these jobs, and no others, as a worker without a handler.
func (f *fixture) claim(ids ...uuid.UUID) (token uuid.UUID) { return f.claimFor(time.Minute, ids...) }

func (f *fixture) claimFor(lease time.Duration, ids ...uuid.UUID) (token uuid.UUID) {
	f.Helper()
	f.fold()
	f.exec("UPDATE "+f.table+" SET due_at = CASE WHEN id = ANY ($1) THEN now() ELSE '2999-01-01' END WHERE "+
		"completed_at IS NULL AND NOT waiting", ids)
	token = workqueue.NewOwnerToken()
	rows, err := f.queue().Claim(f.Context(), token, lease, len(ids), jobs.DefaultQueue, int16(jobs.Normal))
	f.ok(err)
	if len(rows) != len(ids) {
		f.Fatalf("claimed %d jobs of %d", len(rows), len(ids))
	}
	f.exec("UPDATE " + f.table + " SET due_at = now() WHERE completed_at IS NULL AND NOT waiting")
	return token
}

func (f *fixture) queue() *workqueue.Queue { return f.client.Table().On(f.Pool) }

func (f *fixture) ack(ids ...uuid.UUID) {
	f.Helper()
	_, err := f.queue().Ack(f.Context(), f.claim(ids...), ids)
	f.ok(err)
	f.fold()
}

func (f *fixture) fail(ids ...uuid.UUID) {
	f.Helper()
	_, err := f.queue().Fail(f.Context(), f.claim(ids...), ids, "no good")
	f.ok(err)
	f.fold()
}

func (f *fixture) redrive(ids ...uuid.UUID) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.client.Redrive(f.Context(), tx, "test", ids...)
		return err
	})
	f.fold()
}

// awaitJoin waits for the end of a batch or workflow.
func (f *fixture) awaitJoin(id uuid.UUID, status join.Status) (s join.State) {
	f.Helper()
	f.until(fmt.Sprintf("%s is %v", id, status), func() bool {
		s = f.batch(id)
		return s.Status == status
	})
	return s
}

// doParts registers handlers of the tasks. They write a trace in the transaction that settles the job.
func (f *fixture) doParts() {
	f.exec("CREATE TABLE effect (job_id uuid, at timestamptz DEFAULT clock_timestamp())")
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		return job.Tx(ctx, trace(ctx, job.ID))
	}, jobs.KindOptions[part]{})
}

var errNotYet = errors.New("not yet")

func ids(list ...uuid.UUID) []uuid.UUID { return list }
