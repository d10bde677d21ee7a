package workqueue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/workqueue"
)

// What a drain costs is measured by `txwork bench` and by the module bench, see docs/performance.md. The benchmark here
// is of what these do not vary: it runs through the public Worker, on a private server whose commits are durable, with
// a handler that does nothing and the default options.

// benchPayload has the 30 bytes of the figures in docs/performance.md.
var benchPayload = []byte("thirty bytes of a small payload")[:30]

type benchMessage struct {
	Topic   string
	Payload []byte
}

// bench is one table on a durable server.
type bench struct {
	*testing.B
	pool  *pgxpool.Pool
	table *workqueue.Table
}

func newBench(b *testing.B) *bench {
	ctx := b.Context()
	server, err := measure.Start(ctx, nil, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	spec := workqueue.Spec{Table: "bench", Columns: []workqueue.Column{
		{Name: "topic", Type: "text", NotNull: true},
		{Name: "payload", Type: "bytea", NotNull: true},
	}}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		b.Fatal(err)
	}
	x := &bench{B: b, pool: pool, table: table}
	up, _, err := spec.DDL()
	if err != nil {
		b.Fatal(err)
	}
	x.exec("CREATE SCHEMA txwork; " + up)
	return x
}

func (x *bench) exec(sql string) {
	x.Helper()
	if _, err := x.pool.Exec(x.Context(), sql); err != nil {
		x.Fatal(err)
	}
}

func (x *bench) scalar(sql string) (f float64) {
	x.Helper()
	if err := x.pool.QueryRow(x.Context(), sql).Scan(&f); err != nil {
		x.Fatal(err)
	}
	return f
}

// enqueue writes n rows through the library, a thousand to a transaction.
func (x *bench) enqueue(n int) {
	x.Helper()
	for ; n > 0; n -= 1000 {
		err := pgx.BeginFunc(x.Context(), x.pool, func(tx pgx.Tx) error {
			rows := make([]workqueue.NewRow, min(n, 1000))
			for i := range rows {
				rows[i].Values = []any{"bench", benchPayload}
			}
			_, err := x.table.Insert(x.Context(), workqueue.Pgx(tx), rows...)
			return err
		})
		if err != nil {
			x.Fatal(err)
		}
	}
}

// fill prepares n rows the same way for every run.
func (x *bench) fill(n int) {
	x.exec("TRUNCATE txwork.bench")
	x.enqueue(n)
	x.exec("VACUUM ANALYZE txwork.bench")
	x.exec("CHECKPOINT")
}

func (x *bench) worker(handler workqueue.Handler[benchMessage]) *workqueue.Worker {
	x.Helper()
	domain := workqueue.Domain[benchMessage]{
		Table: x.table,
		Columns: func(m *benchMessage, c *workqueue.Columns) {
			c.Field(workqueue.Column{Name: "topic", NotNull: true}, &m.Topic)
			c.Field(workqueue.Column{Name: "payload"}, &m.Payload)
		},
	}
	w, err := workqueue.NewWorker(x.pool, domain, handler, workqueue.WorkerOptions{})
	if err != nil {
		x.Fatal(err)
	}
	return w
}

// drain runs a worker until n rows are done, durably, and returns how many it did a second.
func (x *bench) drain(n int64) (rate float64) {
	x.Helper()
	ctx, stop := context.WithCancel(x.Context())
	defer stop()
	var done atomic.Int64
	start := time.Now()
	w := x.worker(func(context.Context, *workqueue.Claim[benchMessage]) error {
		if done.Add(1) == n {
			stop()
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		x.Fatal(err)
	}
	rate = float64(n) / time.Since(start).Seconds()
	if left := x.scalar("SELECT count(*) FROM txwork.bench WHERE completed_at IS NULL"); left != 0 {
		x.Fatalf("%v rows are left", left)
	}
	return rate
}

// BenchmarkTelemetry drains in turns with providers that do nothing and with those of the OpenTelemetry SDK, which
// samples every span.
func BenchmarkTelemetry(b *testing.B) {
	const n, rounds = 50_000, 5
	x := newBench(b)
	nothing, err := workqueue.Open(x.table.Spec(), workqueue.Telemetry{
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(),
	})
	if err != nil {
		b.Fatal(err)
	}
	sdk, rates := x.table, map[*workqueue.Table][]float64{}
	for b.Loop() {
		for range rounds {
			for _, x.table = range []*workqueue.Table{nothing, sdk} {
				x.fill(n)
				rates[x.table] = append(rates[x.table], x.drain(n))
			}
		}
	}
	median := func(t *workqueue.Table) float64 { return measure.SpreadOf(rates[t]).Median }
	b.ReportMetric(median(nothing), "rows/s-without")
	b.ReportMetric(median(sdk), "rows/s-SDK")
	b.ReportMetric(median(sdk)/median(nothing), "ratio")
}
