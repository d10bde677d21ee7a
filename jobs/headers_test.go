package jobs_test

import (
	"context"
	"maps"
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// Headers that were written with SQL, which may contain values other than strings, must look the same to a handler and
// to readers of the job, because a codec may bind bytes to them.
func TestHeadersByHandAreTheSameToEverybody(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	handled := make(chan map[string]string, 1)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		handled <- job.Headers
		return nil
	}, jobs.KindOptions[mail]{})
	id := f.enqueue(mail{}).ID
	f.exec("UPDATE "+f.table+" SET headers = '{\"tenant\": 7, \"s\": \"x\"}' WHERE id = $1", id)
	want := map[string]string{"tenant": "7", "s": "x"}
	if got := f.get(id).Headers; !maps.Equal(got, want) {
		t.Errorf("Get reads %v, want %v", got, want)
	}
	f.work(jobs.WorkerOptions{})
	f.await(id, workqueue.Done)
	if got := <-handled; !maps.Equal(got, want) {
		t.Errorf("the handler reads %v, want %v", got, want)
	}
}
