package inbox_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

const (
	deliveries = 3
	consumers  = 3
)

var manyMessages = pgtest.Size(500, 2000)

// deliver passes every message to the consumers three times, in random order. Like a broker, it delivers a message
// again until a consumer acknowledges it. Each consumer has a pool of its own.
func (f *fixture) deliver(consume func(pool *pgxpool.Pool, id string) (acknowledged bool)) {
	f.Helper()
	queue := make(chan string, deliveries*manyMessages)
	for _, n := range rand.Perm(deliveries * manyMessages) {
		queue <- fmt.Sprint(n % manyMessages)
	}
	var open, all sync.WaitGroup
	open.Add(deliveries * manyMessages)
	for range consumers {
		pool := f.separatePool()
		for range 4 {
			all.Go(func() {
				for id := range queue {
					if consume(pool, id) {
						open.Done()
					} else {
						queue <- id
					}
				}
			})
		}
	}
	open.Wait()
	close(queue)
	all.Wait()
}

// expectEachOnce checks that every message has had its effect exactly once.
func (f *fixture) expectEachOnce() {
	f.Helper()
	effects, distinct := f.count("SELECT count(*) FROM effects"), f.count("SELECT count(DISTINCT id) FROM effects")
	if effects != manyMessages || distinct != manyMessages {
		f.Errorf("%d effects of %d messages, want %d", effects, distinct, manyMessages)
	}
}

func TestManyDeliveries(t *testing.T) {
	t.Parallel()
	t.Run("processed", func(t *testing.T) {
		t.Parallel()
		f := newInbox(t)
		f.deliver(func(pool *pgxpool.Pool, id string) bool {
			result, err := f.box.Process(t.Context(), pool, key(id), effect(id))
			if err != nil {
				t.Error(err)
			}
			return result.Answer != inbox.InProgress
		})
		f.expectEachOnce()
	})
	t.Run("received", func(t *testing.T) {
		t.Parallel()
		f := newInbox(t)
		for range consumers {
			o := inbox.WorkerOptions{Consumer: "billing", WorkerOptions: workqueue.WorkerOptions{Concurrency: 4}}
			f.workerOn(f.separatePool(), o, func(w *inbox.Worker) { w.HandleAll(delivered) })
		}
		f.deliver(func(pool *pgxpool.Pool, id string) bool {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := f.box.Receive(t.Context(), workqueue.Pgx(tx), message(id, id))
				return err
			})
			if err != nil {
				t.Error(err)
			}
			return true
		})
		f.until("everything is processed", func() bool {
			return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 2") == manyMessages
		})
		f.expectEachOnce()
	})
}
