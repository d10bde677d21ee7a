package keyed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/keyed"
)

// The throughput of keys while a transaction stays open, so that vacuum cannot clean up rows that were deleted or
// updated since: with one key, whose rows are all adjacent in the indexes, and with many.
func BenchmarkHeld(b *testing.B) {
	for _, c := range []struct {
		name  string
		rows  int
		keys  int
		limit int
	}{{"one ordered key", 3_000, 1, 0}, {"one limited key", 20_000, 1, 10}, {"500 ordered keys", 20_000, 500, 0},
		{"500 limited keys", 20_000, 500, 5}} {
		for _, held := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s held %v", c.name, held), func(b *testing.B) {
				pool, table := benchTable(b)
				fill(b, pool, table, c.rows, func(i int) keyed.Rule {
					return keyed.Limited{Key: fmt.Sprint(i % c.keys), MaxRunning: c.limit}
				})
				if held {
					tx, err := pool.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := tx.Exec(b.Context(), "SELECT txid_current()"); err != nil {
						b.Fatal(err)
					}
					defer tx.Rollback(b.Context())
				}
				start := time.Now()
				drain(b, pool, table, c.rows)
				b.ReportMetric(float64(c.rows)/time.Since(start).Seconds(), "rows/s")
			})
		}
	}
}
