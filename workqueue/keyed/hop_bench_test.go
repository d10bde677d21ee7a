package keyed_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// benchWork runs workers with the default options until the benchmark ends.
func benchWork(b *testing.B, pool *pgxpool.Pool, table *workqueue.Table, workers int, handle workqueue.Handler[body]) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range workers {
		w, err := workqueue.NewWorker(pool, workqueue.Domain[body]{Table: table, Columns: (*body).columns}, handle,
			workqueue.WorkerOptions{})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	b.Cleanup(func() { stop(); running.Wait() })
}

// The time from the end of a row's handler to the start of the next row of its key, and so how many rows of a key run
// in a second. Every key always has waiting rows.
func BenchmarkHop(b *testing.B) {
	for _, keys := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			const each = 1000
			pool, table := benchTable(b)
			fill(b, pool, table, keys*each, func(i int) keyed.Rule { return keyed.Ordered{Key: fmt.Sprint(i % keys)} })
			var mu sync.Mutex
			var hops []time.Duration
			last := map[string]time.Time{}
			start := time.Now()
			benchWork(b, pool, table, 1, func(_ context.Context, c *workqueue.Claim[body]) error {
				mu.Lock()
				defer mu.Unlock()
				if ended, ok := last[*c.Body.Key]; ok {
					hops = append(hops, time.Since(ended))
				}
				last[*c.Body.Key] = time.Now()
				return nil
			})
			for count := 0; count < keys*(each-1); pgtest.Pass(10 * time.Millisecond) {
				mu.Lock()
				count = len(hops)
				mu.Unlock()
			}
			b.ReportMetric(float64(each)/time.Since(start).Seconds(), "rows/s/key")
			slices.Sort(hops)
			b.ReportMetric(float64(hops[len(hops)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(hops[len(hops)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// Which share of a rate is used, by rate, burst and number of workers.
func BenchmarkRate(b *testing.B) {
	for _, c := range []struct {
		rate    float64
		burst   int
		workers int
	}{{0.7, 1, 1}, {5, 1, 1}, {20, 1, 1}, {20, 1, 3}, {100, 1, 1}, {100, 10, 3}, {1000, 1, 1}, {1000, 1, 3},
		{1000, 100, 3}} {
		b.Run(fmt.Sprintf("rate %v burst %d workers %d", c.rate, c.burst, c.workers), func(b *testing.B) {
			window := max(5*time.Second, time.Duration(5/c.rate*float64(time.Second)))
			pool, table := benchTable(b)
			rows := int(c.rate*window.Seconds())*2 + c.burst + 10
			fill(b, pool, table, (rows+999)/1000*1000, func(int) keyed.Rule {
				return keyed.Limited{Key: "k", Rate: c.rate, Burst: c.burst}
			})
			var handled atomic.Int64
			var first atomic.Int64
			benchWork(b, pool, table, c.workers, func(context.Context, *workqueue.Claim[body]) error {
				first.CompareAndSwap(0, time.Now().UnixNano())
				handled.Add(1)
				return nil
			})
			for first.Load() == 0 {
				pgtest.Pass(time.Millisecond)
			}
			pgtest.Pass(time.Until(time.Unix(0, first.Load()).Add(window)))
			n := float64(handled.Load() - int64(c.burst)) // the burst comes in addition to the rate
			b.ReportMetric(100*n/(c.rate*window.Seconds()), "%of-rate")
		})
	}
}
