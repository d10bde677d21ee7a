package keyed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// What runs save: it drains the rows of four ordered keys with a handler of one row, and with batches of three sizes.
func BenchmarkRuns(b *testing.B) {
	const rows, keys = 100_000, 4
	for _, limit := range []int{0, 100, 250, 1000} {
		b.Run(fmt.Sprintf("batch=%d", limit), func(b *testing.B) {
			pool, table := benchTable(b)
			var took time.Duration
			for range b.N {
				n := rows
				if limit == 0 {
					n = rows / 50 // one by one they take long
				}
				fill(b, pool, table, n, func(i int) keyed.Rule { return keyed.Ordered{Key: fmt.Sprint(i % keys)} })
				domain := workqueue.Domain[body]{Table: table, Columns: (*body).columns}
				one := func(context.Context, *workqueue.Claim[body]) error { return nil }
				w, err := workqueue.NewWorker(pool, domain, one, workqueue.WorkerOptions{})
				if limit > 0 {
					many, _ := workqueue.NewBatch(workqueue.BatchOptions{Limit: limit}, nil,
						func(context.Context, []*workqueue.Claim[body]) ([]error, error) { return nil, nil })
					w, err = workqueue.NewBatchWorker(pool, domain, many, workqueue.WorkerOptions{})
				}
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				if !pgtest.Await(10*time.Minute, func() bool {
					var left int
					err := pool.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM txwork.work WHERE completed_at IS NULL "+
						"LIMIT 1) AS l").Scan(&left)
					return err == nil && left == 0
				}) {
					b.Fatal("rows are left")
				}
				took += time.Since(start)
				stop()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n*b.N)/took.Seconds(), "rows/s")
			}
		})
	}
}
