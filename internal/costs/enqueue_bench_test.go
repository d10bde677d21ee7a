package costs_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// BenchmarkEnqueue reports what an enqueue costs the client, with its transaction: processor time and allocations for
// each row. The server is another process, and not counted. Unsent is this library's part alone: no statement reaches
// the driver.
//
//	go test ./internal/costs -run '^$' -bench Enqueue -benchtime 50x
func BenchmarkEnqueue(b *testing.B) {
	for _, domain := range []struct {
		name string
		open func(schema string) (benched, error)
	}{
		{"jobs", benchedJobs},
		{"outbox", func(schema string) (benched, error) { return benchedOutbox(outbox.Options{Schema: schema}) }},
		{"inbox", benchedInbox},
	} {
		for _, rows := range []int{1, enqueueBatch} {
			for _, sent := range []bool{true, false} {
				name := domain.name + "/" + strconv.Itoa(rows) + map[bool]string{false: "/unsent"}[sent]
				b.Run(name, func(b *testing.B) { benchmarkEnqueue(b, domain.open, rows, sent) })
			}
		}
	}
}

func benchmarkEnqueue(b *testing.B, open func(schema string) (benched, error), rows int, sent bool) {
	db, d, must := openBenched(b, open)
	written := 0
	turn := func() { // of as many rows each
		for range enqueueBatch / rows {
			must(pgx.BeginFunc(b.Context(), db.Pool, func(tx pgx.Tx) error {
				return d.enqueue(b.Context(), workqueue.Pgx(tx), written, rows)
			}))
			written += rows
		}
	}
	if !sent {
		tx, err := db.Pool.Begin(b.Context())
		must(err)
		turn = func() {
			for range enqueueBatch / rows {
				must(d.enqueue(b.Context(), workqueue.Pgx(mute{tx, rows}), written, rows))
			}
		}
		defer tx.Rollback(context.Background())
	}
	turn() // fills caches that are filled once
	used, allocated := measure.ClientCPU(), mallocs()
	for b.Loop() {
		turn()
	}
	used, allocated = measure.ClientCPU()-used, mallocs()-allocated
	all := float64(b.N * enqueueBatch)
	b.ReportMetric(measure.Microseconds(used)/all, "µs-cpu/row")
	b.ReportMetric(float64(allocated)/all, "allocs/row")
}

// A mute transaction sends nothing that has no result.
type mute struct {
	pgx.Tx
	rows int
}

func (m mute) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.NewCommandTag("INSERT 0 " + strconv.Itoa(m.rows)), nil
}
