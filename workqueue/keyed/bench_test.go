package keyed_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// What a key costs: it drains the same rows without keys, with many ordered keys, and with limited keys. There is one
// worker with the default options and a handler that does nothing, on a durable server.
func BenchmarkDrain(b *testing.B) {
	const rows, keys = 20_000, 500
	for name, of := range map[string]func(i int) keyed.Rule{
		"free":    func(int) keyed.Rule { return nil },
		"serial":  func(i int) keyed.Rule { return keyed.Ordered{Key: fmt.Sprint(i % keys)} },
		"limited": func(i int) keyed.Rule { return keyed.Limited{Key: fmt.Sprint(i % keys), MaxRunning: 5} },
	} {
		b.Run(name, func(b *testing.B) {
			pool, table := benchTable(b)
			var took time.Duration
			for range b.N {
				fill(b, pool, table, rows, of)
				start := time.Now()
				drain(b, pool, table, rows)
				took += time.Since(start)
			}
			b.ReportMetric(rows*float64(b.N)/took.Seconds(), "rows/s")
		})
	}
}

func benchTable(b *testing.B) (*pgxpool.Pool, *workqueue.Table) {
	b.Helper()
	server, err := measure.Start(b.Context(), nil, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(b.Context(), server.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	s := spec("txwork")
	table, err := workqueue.Open(s, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	core, _, _ := s.DDL()
	rules, _, _ := keyed.DDL(s)
	if _, err := pool.Exec(b.Context(), "CREATE SCHEMA txwork; "+core+rules); err != nil {
		b.Fatal(err)
	}
	return pool, table
}

func fill(b *testing.B, pool *pgxpool.Pool, table *workqueue.Table, rows int, of func(int) keyed.Rule) {
	b.Helper()
	for first := 0; first < rows; first += 1000 {
		batch := make([]workqueue.NewRow, 1000)
		for i := range batch {
			batch[i] = row(first+i, of(first+i))
		}
		err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
			_, err := table.Insert(b.Context(), workqueue.Pgx(tx), batch...)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE txwork.work"); err != nil {
		b.Fatal(err)
	}
}

func drain(b *testing.B, pool *pgxpool.Pool, table *workqueue.Table, rows int) {
	b.Helper()
	var handled atomic.Int64
	ctx, stop := context.WithCancel(b.Context())
	w, err := workqueue.NewWorker(pool, workqueue.Domain[body]{Table: table, Columns: (*body).columns},
		func(context.Context, *workqueue.Claim[body]) error {
			handled.Add(1)
			return nil
		}, workqueue.WorkerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for handled.Load() < int64(rows) {
		pgtest.Pass(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
