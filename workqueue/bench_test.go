package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// The benchmarks run through the public Worker, on a private PostgreSQL with fsync and
// synchronous_commit on, with a no-op handler and the default options. docs/performance.md says how to
// read them. Set -benchtime=1x for a single run of each.

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

func newBench(b *testing.B, spec workqueue.Spec) *bench {
	ctx := b.Context()
	server, err := localpg.Start(ctx, localpg.Options{Durable: true, Settings: map[string]string{
		"max_wal_size": "4GB", "shared_buffers": "512MB",
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	spec.Table = "bench"
	spec.Columns = []workqueue.Column{
		{Name: "topic", Type: "text", NotNull: true},
		{Name: "payload", Type: "bytea", NotNull: true},
	}
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

// drain runs a worker until n rows are done, durably, and returns when each quarter of them was reached.
func (x *bench) drain(n int) (quarters [4]time.Duration) {
	x.Helper()
	ctx, stop := context.WithCancel(x.Context())
	defer stop()
	var done atomic.Int64
	start := time.Now()
	w := x.worker(func(context.Context, *workqueue.Claim[benchMessage]) error {
		if d := done.Add(1); d%int64(n/4) == 0 {
			quarters[d/int64(n/4)-1] = time.Since(start)
			if d == int64(n) {
				stop()
			}
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		x.Fatal(err)
	}
	quarters[3] = time.Since(start)
	if left := x.scalar("SELECT count(*) FROM txwork.bench WHERE completed_at IS NULL"); left != 0 {
		x.Fatalf("%v rows are left", left)
	}
	return quarters
}

func BenchmarkDrain(b *testing.B) {
	for name, spec := range map[string]workqueue.Spec{"retained": {}, "deleted": {DeleteDone: true}} {
		b.Run(name, func(b *testing.B) {
			const n = 200_000
			x := newBench(b, spec)
			var took time.Duration
			runs := 0
			for b.Loop() {
				x.fill(n)
				took += x.drain(n)[3]
				runs++
			}
			b.ReportMetric(float64(n*runs)/took.Seconds(), "rows/s")
		})
	}
}

// BenchmarkTelemetry drains in turns with providers that do nothing and with those of the OpenTelemetry SDK, which
// samples every span.
func BenchmarkTelemetry(b *testing.B) {
	const n, rounds = 50_000, 5
	x := newBench(b, workqueue.Spec{})
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
				rates[x.table] = append(rates[x.table], n/x.drain(n)[3].Seconds())
			}
		}
	}
	median := func(t *workqueue.Table) float64 { return slices.Sorted(slices.Values(rates[t]))[len(rates[t])/2] }
	b.ReportMetric(median(nothing), "rows/s-without")
	b.ReportMetric(median(sdk), "rows/s-SDK")
	b.ReportMetric(median(sdk)/median(nothing), "ratio")
}

// BenchmarkHeldSnapshot drains while a transaction elsewhere holds back vacuum.
func BenchmarkHeldSnapshot(b *testing.B) {
	const n = 400_000
	x := newBench(b, workqueue.Spec{})
	for b.Loop() {
		x.fill(n)
		release := x.holdSnapshot()
		q := x.drain(n)
		release()
		first, last := q[0], q[3]-q[2]
		b.ReportMetric(n/q[3].Seconds(), "rows/s")
		b.ReportMetric(first.Seconds()/last.Seconds(), "last/first-quarter")
	}
}

func (x *bench) holdSnapshot() (release func()) {
	x.Helper()
	tx, err := x.pool.BeginTx(x.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		x.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(x.Context(), "SELECT count(*) FROM txwork.bench").Scan(&n); err != nil {
		x.Fatal(err)
	}
	return func() { tx.Rollback(x.Context()) }
}

// BenchmarkWAL counts the write-ahead log that a row costs from enqueue to done, and the share of heap-only updates
// among claims, with producers and worker running side by side.
func BenchmarkWAL(b *testing.B) {
	const n = 100_000
	x := newBench(b, workqueue.Spec{})
	for b.Loop() {
		x.fill(n) // the steady state: pages have been filled and vacuumed before
		x.drain(n)
		x.exec("VACUUM txwork.bench")
		x.exec("CHECKPOINT")
		x.exec("SELECT pg_stat_reset()")
		before := x.scalar("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
		fpi := x.scalar("SELECT wal_fpi FROM pg_stat_wal")
		x.enqueue(n)
		x.drain(n)
		bytes := x.scalar("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn") - before
		b.ReportMetric(bytes/n, "WAL-B/row")
		b.ReportMetric((x.scalar("SELECT wal_fpi FROM pg_stat_wal")-fpi)/n, "full-page-images/row")
		pgtest.Pass(time.Second) // PostgreSQL reports table statistics once a second
		hot := x.scalar("SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'bench'")
		b.ReportMetric(100*hot/n, "%HOT-of-claims")
	}
}

// BenchmarkIdleLatency is insert to handler start, one row at a time on an idle queue.
func BenchmarkIdleLatency(b *testing.B) {
	x := newBench(b, workqueue.Spec{})
	ctx, stop := context.WithCancel(b.Context())
	started := make(chan time.Time, 1)
	var running sync.WaitGroup
	w := x.worker(func(context.Context, *workqueue.Claim[benchMessage]) error {
		started <- time.Now()
		return nil
	})
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer stop()

	x.enqueue(1) // opens connections and prepares statements
	<-started
	var took []time.Duration
	for b.Loop() {
		pgtest.Pass(20 * time.Millisecond) // idle again
		start := time.Now()
		x.enqueue(1)
		took = append(took, (<-started).Sub(start))
	}
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("ms-p%d", p))
	}
}
