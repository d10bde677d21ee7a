package jobs_test

import (
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// An application cancels one task of a workflow and leaves its transaction open. It delays neither other jobs, nor
// other tasks of the workflow, nor another workflow. The workflow itself ends when the application has committed.
func TestAnOpenTransactionOnOneTaskStopsNobody(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.doParts()
	held, other := f.start(diamond()), f.start(diamond())
	application, err := f.Pool.Begin(f.Context())
	f.ok(err)
	defer application.Rollback(f.Context())
	_, err = f.client.Cancel(f.Context(), workqueue.Pgx(application), "no", held.Tasks["d"])
	f.ok(err)
	for range 200 {
		f.enqueue(part{})
	}
	f.work(jobs.WorkerOptions{})
	f.awaitJoin(other.ID, join.Completed)
	for _, task := range []string{"a", "b", "c"} {
		f.await(held.Tasks[task], workqueue.Done)
	}
	f.until("all other jobs are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status <> 2") == 1
	})
	f.ok(application.Commit(f.Context()))
	f.awaitJoin(held.ID, join.Failed)
}
