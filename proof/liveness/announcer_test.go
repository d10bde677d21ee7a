package liveness

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// announcing is a relay that becomes its table's announcer, which only happens while producers write. It cannot fall
// asleep while a transaction is open that was silent for it.
var announcing = operation{name: "an announcer", prepare: func(w *world, name string) own {
	ids, err := w.send(w.Context(), outbox.Message{Topic: topic, Key: name})
	w.ok(err)
	return w.rowsDone("outbox", ids...)
}, run: announce, same: func(ctx context.Context, w *world, name string) error {
	return w.delivered(ctx, outbox.Message{Topic: topic, Key: name}, outbox.Message{Topic: topic})
}, rival: ofOutbox, restless: true}

const (
	rushing  = 4                      // number of producers
	rushFor  = 5 * time.Second        // at most, until an announcer is awake
	rushOn   = 100 * time.Millisecond // after an announcer has woken up
	lateness = 200 * time.Millisecond
)

func announce(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	relay := make(chan error, 1)
	go func() { relay <- w.relay(pool).Run(relaying) }()
	err := w.rush(ctx)
	if err == nil {
		err = w.until(ctx, "it is done", own.query, own.args...)
	}
	late, lateErr := w.Pool.Begin(ctx)
	if lateErr == nil {
		_, lateErr = w.outbox.Enqueue(ctx, workqueue.Pgx(late), outbox.Message{Topic: topic})
		stop()
		time.Sleep(lateness)
		lateErr = errors.Join(lateErr, late.Commit(context.WithoutCancel(ctx)))
	}
	stop()
	return errors.Join(err, lateErr, <-relay)
}

// rush writes messages, one in each transaction, until an announcer is awake, as far as machine and program allow.
func (w *world) rush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rushFor)
	defer cancel()
	rush, stop := context.WithCancel(ctx)
	errs := make([]error, rushing)
	var producers sync.WaitGroup
	for i := range errs {
		producers.Go(func() {
			for rush.Err() == nil && errs[i] == nil {
				_, errs[i] = w.send(context.WithoutCancel(rush), outbox.Message{Topic: topic})
				time.Sleep(lookEvery)
			}
		})
	}
	if w.until(ctx, "somebody is awake", `
		SELECT EXISTS (SELECT FROM pg_locks AS l, hashtextextended($1, 0) AS k (lock)
			WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
			  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid)`,
		w.Schema+".outbox announcer") == nil {
		time.Sleep(rushOn)
	}
	stop()
	producers.Wait()
	return errors.Join(errs...)
}
