package main

import (
	"context"
	"errors"
	"time"

	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// takeOverInterval is how often a command that runs workers requeues rows of workers that died.
const takeOverInterval = 5 * time.Second

// service runs a command's workers as an application does: on one runtime, stopped in order. It does not run the
// reaper, which would need to know the application's retention; see takeOver.
func (d *database) service(parts ...service.Part) (*service.Service, error) {
	return service.New(d.Pool, service.Options{MaintainedElsewhere: true, HandlersWithoutPool: true,
		Logger: d.app.logger()}, parts...)
}

// A beside is a part of a service that serves no queue itself.
type beside func(ctx context.Context) error

func (b beside) Run(ctx context.Context) error { return b(ctx) }

func (beside) Workers() []*workqueue.Worker { return nil }

func (beside) Tables() []*workqueue.Table { return nil }

// takeOver requeues the rows of workers that died. It calls the table's own function and deletes nothing, because
// backoff and retention are the application's settings, which this command does not know. The function is safe to call
// from many processes at once, so no leader is elected.
func (d *database) takeOver(t *workqueue.Table) service.Part {
	return beside(func(ctx context.Context) error {
		working := true
		for ctx.Err() == nil {
			r := newReaping(d, t)
			var err error
			for more := true; more && err == nil; {
				more, err = r.batch(ctx, r.works[0])
			}
			if err == nil && r.done.Skipped > 0 {
				err = errors.New(r.done.inTheWay())
			}
			if err != nil && working && ctx.Err() == nil {
				d.app.logger().Warn("reaping fails: rows of processes that died stay where they are; --no-reaper "+
					"turns it off",
					"table", t.Name(), "error", err)
			}
			working = err == nil
			sleep(ctx, takeOverInterval)
		}
		return nil
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
