package periodic

import (
	"context"
	"errors"
	"sync"

	"github.com/txwork/txwork/workqueue"
)

// Beside are the options of a scheduler that runs beside a worker: it reaches the database and stops as that
// does.
func Beside(o workqueue.WorkerOptions) SchedulerOptions {
	return SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{
		PollInterval:    o.PollInterval,
		ShutdownTimeout: o.ShutdownTimeout,
		Redact:          o.Redact,
		NoListen:        o.NoListen,
		ListenConfig:    o.ListenConfig,
		Runtime:         o.Runtime,
	}}
}

// Together runs what belongs together, such as a worker and the scheduler of its schedules, until ctx is
// cancelled. When one of them ends, the others are stopped: half a worker is hard to notice. It waits for all
// of them, and the error joins theirs.
func Together(ctx context.Context, run ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(run))
	var running sync.WaitGroup
	for i, one := range run {
		running.Go(func() {
			defer stop()
			errs[i] = one(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
