package costs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// undisturbed keeps statements that do not depend on the rows out of a measurement: renewals, which depend on time and
// are also sent when the worker begins to listen.
func undisturbed(o workqueue.WorkerOptions) workqueue.WorkerOptions {
	o.Lease, o.NoListen = time.Hour, true
	return o
}

// A runner is a worker.
type runner interface {
	Run(ctx context.Context) error
}

// inPhases lets a worker claim n rows of a table, calls between while all of them are claimed and none is settled, and
// then settles them. The worker must be able to handle all of them at once.
func (l *lab) inPhases(table string, n int, worker func(handler func() error) runner, between func()) {
	l.Helper()
	var started atomic.Int64
	release := make(chan struct{})
	done := func() int64 { return l.count("SELECT count(*) FROM " + table + " WHERE status = 2") }
	before := done()
	stop := l.run(worker(func() error {
		started.Add(1)
		<-release
		return nil
	}))
	defer stop()
	free := sync.OnceFunc(func() { close(release) })
	defer free() // before stop, even if the test has failed
	l.eventually("all rows have been claimed", func() bool { return started.Load() == int64(n) })
	between()
	free()
	l.eventually("all rows are done", func() bool { return done() == before+int64(n) })
}

// run runs a worker. Stop ends it and waits for it.
func (l *lab) run(w runner) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			l.Error(err)
		}
	})
	return func() { cancel(); running.Wait() }
}
