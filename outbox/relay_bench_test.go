package outbox_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// How fast a relay drains what is there, with handlers that do nothing:
//
//	go test -run - -bench Drain -benchtime 100000x ./outbox
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct {
		name  string
		store outbox.Storage
		lanes int
		batch bool
		keys  int
	}{
		{"rows", outbox.Rows, 0, false, 0}, {"rows in batches", outbox.Rows, 0, true, 0},
		{"rows of 4 keys in batches", outbox.Rows, 0, true, 4},
		{"log", outbox.Log, 1, false, 0}, {"log in 4 lanes", outbox.Log, 4, false, 0},
		{"log in batches", outbox.Log, 1, true, 0}, {"log of 4 keys", outbox.Log, 1, false, 4},
		{"log of 4 keys in batches", outbox.Log, 1, true, 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := pgtest.New(b)
			box, err := outbox.Open(outbox.Options{Schema: db.Schema, Storage: c.store, Ordering: outbox.PerKey,
				Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
			if err != nil {
				b.Fatal(err)
			}
			up, _, err := box.DDL()
			if err != nil {
				b.Fatal(err)
			}
			db.Define(b, up)
			o := outbox.RelayOptions{}
			if c.store == outbox.Log {
				o.Subscription = "billing"
				log := db.Schema + ".outbox_log"
				_, err := db.Pool.Exec(b.Context(), "CALL "+log+"_tick()")
				if err == nil {
					_, err = db.Pool.Exec(b.Context(), "SELECT "+log+"_subscribe('billing', lanes => $1)", c.lanes)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for left := b.N; left > 0; left -= 1000 {
				msgs := messages("t", min(left, 1000))
				for i := range msgs {
					if c.keys > 0 {
						msgs[i].Key = strconv.Itoa(i % c.keys)
					}
				}
				err := pgx.BeginFunc(b.Context(), db.Pool, func(tx pgx.Tx) error {
					_, err := box.EnqueueMany(b.Context(), workqueue.Pgx(tx), msgs...)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				if c.store == outbox.Log {
					if _, err := db.Pool.Exec(b.Context(), "CALL "+db.Schema+".outbox_log_tick()"); err != nil {
						b.Fatal(err)
					}
				}
			}
			r, err := outbox.NewRelay(db.Pool, box, o)
			if err != nil {
				b.Fatal(err)
			}
			var handled atomic.Int64
			done := make(chan bool, 1)
			note := func(n int) {
				if handled.Add(int64(n)) == int64(b.N) {
					done <- true
				}
			}
			if c.batch {
				r.HandleAllBatch(workqueue.BatchOptions{},
					func(_ context.Context, batch []*outbox.Delivery) ([]error, error) {
						note(len(batch))
						return nil, nil
					})
			} else {
				r.HandleAll(func(context.Context, *outbox.Delivery) error { note(1); return nil })
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			b.ResetTimer()
			start := time.Now()
			go func() { ended <- r.Run(ctx) }()
			<-done
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "messages/s")
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
