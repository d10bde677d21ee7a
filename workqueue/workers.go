package workqueue

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Workers run as one, such as those of several queues and, before them, the scheduler that fills these queues. Their
// [Drain] is named after the table of the last one.
type Workers []*Worker

// Run runs all of them until ctx is cancelled. When one ends, the others are stopped: half a worker is hard to notice.
// It waits for all of them, and the error joins theirs.
func (ws Workers) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(ws))
	var running sync.WaitGroup
	for i, w := range ws {
		running.Go(func() {
			defer stop()
			errs[i] = w.Run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Wake makes all of them look for rows now. It never blocks.
func (ws Workers) Wake() {
	for _, w := range ws {
		w.Wake()
	}
}

// Drain is one Drain of them all, in their order, see [Worker.Drain].
func (ws Workers) Drain() (*Drain, error) { return ws.drain((*Worker).Drain) }

// DrainIn is [Workers.Drain] inside a transaction, see [Worker.DrainIn].
func (ws Workers) DrainIn(tx pgx.Tx) (*Drain, error) {
	return ws.drain(func(w *Worker) (*Drain, error) { return w.DrainIn(tx) })
}

func (ws Workers) drain(one func(*Worker) (*Drain, error)) (*Drain, error) {
	all := &Drain{}
	for _, w := range ws {
		d, err := one(w)
		if err != nil {
			return nil, err
		}
		all.name, all.parts = d.name, append(all.parts, d.parts...)
	}
	return all, nil
}
