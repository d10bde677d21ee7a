package workqueue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/workqueue"
)

type benchMessage struct {
	Topic   string
	Payload []byte
}

func BenchmarkDrain(b *testing.B) {
	ctx := context.Background()
	s, err := localpg.Start(ctx, localpg.Options{Durable: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	pool, err := pgxpool.New(ctx, s.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	spec := workqueue.Spec{Table: "bench", Columns: []workqueue.Column{{"topic", "text", true}, {"payload", "bytea", true}}}
	up, _, err := workqueue.DDL(spec)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "create schema txwork;"+up); err != nil {
		b.Fatal(err)
	}
	const n = 200000
	t, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		pool.Exec(ctx, "truncate txwork.bench")
		if _, err := pool.Exec(ctx, fmt.Sprintf("insert into txwork.bench(topic,payload) select 't', '012345678901234567890123456789' from generate_series(1,%d)", n)); err != nil {
			b.Fatal(err)
		}
		pool.Exec(ctx, "vacuum analyze txwork.bench")
		pool.Exec(ctx, "checkpoint")
		runCtx, cancel := context.WithCancel(ctx)
		var done atomic.Int64
		w, err := workqueue.NewWorker(pool, workqueue.Domain[benchMessage]{Table: t, Fields: func(m *benchMessage) []any { return []any{&m.Topic, &m.Payload} }},
			func(ctx context.Context, c *workqueue.Claim[benchMessage]) error {
				if done.Add(1) == n {
					cancel()
				}
				return nil
			}, workqueue.WorkerOptions{})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := w.Run(runCtx); err != nil {
			b.Fatal(err)
		}
		el := time.Since(start)
		var left int
		pool.QueryRow(ctx, "select count(*) from txwork.bench where status<>2").Scan(&left)
		b.Logf("%d rows in %v: %.0f/s left %d", n, el, n/el.Seconds(), left)
		b.ReportMetric(n/el.Seconds(), "rows/s")
	}
}
