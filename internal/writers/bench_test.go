package writers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// BenchmarkManyRows writes 10,000 messages in one transaction: by the function for many, by as many calls of the
// function for one, which a client sends one by one or the server makes, and by Go.
func BenchmarkManyRows(b *testing.B) {
	const n = 10_000
	db := pgtest.New(b)
	text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema})
	if err != nil {
		b.Fatal(err)
	}
	db.Define(b, text)
	box, err := outbox.Open(outbox.Options{Schema: db.Schema, Telemetry: quiet})
	if err != nil {
		b.Fatal(err)
	}
	for _, dedup := range []bool{false, true} {
		msgs := make([]outbox.Message, n)
		objects := make([]string, n)
		for i := range msgs {
			msgs[i] = outbox.Message{Topic: "order.placed", Payload: fmt.Appendf(nil, `{"id": %d, "text": "%s"}`, i,
				strings.Repeat("x", 100))}
			if dedup {
				msgs[i].DedupKey = fmt.Sprintf("order %d", i)
			}
			objects[i] = fmt.Sprintf(`{"topic": "order.placed", "dedup_key": "%s", "payload": %s}`, msgs[i].DedupKey,
				msgs[i].Payload)
		}
		array := "[" + strings.Join(objects, ",") + "]"
		for _, way := range []struct {
			name string
			run  func(ctx context.Context, tx pgx.Tx) error
		}{
			{"enqueue_many", func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT * FROM "+db.Schema+".outbox_enqueue_many($1::jsonb)", array)
				return err
			}},
			{"calls by the client", func(ctx context.Context, tx pgx.Tx) error {
				for _, m := range msgs {
					if _, err := tx.Exec(ctx, "SELECT * FROM "+db.Schema+
						".outbox_enqueue($1, $2::bytea, dedup_key => $3)", m.Topic, m.Payload, m.DedupKey); err != nil {
						return err
					}
				}
				return nil
			}},
			{"calls by the server", func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT w.* FROM jsonb_to_recordset($1::jsonb) AS r (topic text, payload jsonb, "+
					"dedup_key text), "+db.Schema+".outbox_enqueue(r.topic, r.payload, dedup_key => r.dedup_key) AS w", array)
				return err
			}},
			{"Go", func(ctx context.Context, tx pgx.Tx) error {
				_, err := box.EnqueueMany(ctx, workqueue.Pgx(tx), msgs...)
				return err
			}},
		} {
			b.Run(fmt.Sprintf("dedup %t/%s", dedup, way.name), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					if _, err := db.Pool.Exec(b.Context(), "TRUNCATE "+db.Schema+".outbox"); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					if err := pgx.BeginFunc(b.Context(), db.Pool, func(tx pgx.Tx) error {
						return way.run(b.Context(), tx)
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
