package workqueue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txwork/txwork/workqueue"
)

func TestOneOfSeveralWorkersThatCannotStartStopsTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	works, fails := r.worker(workqueue.WorkerOptions{}, ackAll), r.worker(workqueue.WorkerOptions{}, ackAll)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := fails.Run(ended); err != nil { // a worker runs once
		t.Fatal(err)
	}
	err := workqueue.Workers{works, fails}.Run(t.Context())
	if err == nil || works.Ready() == nil {
		t.Errorf("Run returned %v, the other: %v", err, works.Ready())
	}
}

func TestSeveralWorkersEndWhenTheyAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: byTopic})
	r.insertMany("a", 1)
	r.insertMany("b", 1)
	ctx, stop := context.WithCancelCause(t.Context())
	seen := make(chan string, 2)
	handle := func(_ context.Context, c *workqueue.Claim[note]) error {
		if seen <- c.Body.Topic; len(seen) == cap(seen) {
			stop(errors.New("all were seen"))
		}
		return nil
	}
	workers := workqueue.Workers{
		r.serving(lanes("a")).worker(workqueue.WorkerOptions{}, handle),
		r.serving(lanes("b")).worker(workqueue.WorkerOptions{}, handle),
	}
	if err := workers.Run(ctx); err != nil {
		t.Error(err)
	}
	if one, other := <-seen, <-seen; one == other {
		t.Errorf("both saw %s", one)
	}
}
