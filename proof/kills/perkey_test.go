package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func openOutbox(schema string, ordering outbox.Ordering) (*outbox.Outbox, error) {
	return outbox.Open(outbox.Options{
		Schema: schema, Ordering: ordering, MaxAttempts: 1000, Telemetry: quiet(),
		Retry: workqueue.Retry{Growth: workqueue.Constant, Base: 5 * time.Millisecond, Cap: 5 * time.Millisecond},
	})
}

func newOutbox(t *testing.T, ordering outbox.Ordering) (*pgtest.DB, *outbox.Outbox) {
	t.Helper()
	db := pgtest.New(t)
	box, err := openOutbox(db.Schema, ordering)
	if err != nil {
		t.Fatal(err)
	}
	up, _, err := box.DDL()
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, up)
	return db, box
}

// relayPerKey writes an effect for each message, in the transaction that settles it. One delivery in fifty fails.
func relayPerKey(ctx context.Context, pool *pgxpool.Pool, schema, _ string) error {
	box, err := openOutbox(schema, outbox.PerKey)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(pool, box, outbox.RelayOptions{WorkerOptions: workerOptions()})
	if err != nil {
		return err
	}
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
		if rand.IntN(50) == 0 {
			return errors.New("by chance")
		}
		return m.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects (key, n) VALUES ($1, $2)", m.Key, string(m.Payload))
			return err
		})
	})
	return r.Run(ctx)
}

// For each key, the effects are in the commit order of its messages, and none is missing.
func TestPerKeyOrder(t *testing.T) {
	t.Parallel()
	messages, keys := size(4_000, 50_000), size(100, 500)
	db, box := newOutbox(t, outbox.PerKey)
	execute(t, db, "CREATE TABLE effects (key text, n text, at bigserial)")
	execute(t, db, "CREATE TABLE sent (key text, n text, at bigserial)")
	start := time.Now()
	crew := startCrew(t, db, "per-key", 4, time.Second, box.Table())
	produce(t, db, box, messages, keys)
	crew.until("effects", messages, func() int { return ask[int](t, db, "SELECT count(*)::int FROM effects") })
	kills := crew.killed()
	crew.stop()

	wrong := ask[int](t, db, `
		WITH s AS (SELECT key, array_agg(n ORDER BY at) AS ns FROM sent GROUP BY key),
		     e AS (SELECT key, array_agg(n ORDER BY at) AS ns FROM effects GROUP BY key)
		SELECT count(*)::int FROM s FULL JOIN e USING (key) WHERE s.ns IS DISTINCT FROM e.ns`)
	effects := ask[int](t, db, "SELECT count(*)::int FROM effects")
	attempts := ask[int](t, db, "SELECT sum(attempts)::int FROM outbox")
	if wrong > 0 || effects != messages {
		t.Errorf("%d keys are out of order, %d effects of %d messages", wrong, effects, messages)
	}
	t.Logf("messages %d, keys %d, effects %d, keys out of order %d, processes killed %d, attempts %d, %.1f s",
		messages, keys, effects, wrong, kills, attempts, time.Since(start).Seconds())
}

// produce commits the given number of messages from several goroutines. Some transactions roll back or take long. Each
// records, under a lock of the key, in which order the messages of a key commit.
func produce(t *testing.T, db *pgtest.DB, box *outbox.Outbox, messages, keys int) {
	t.Helper()
	const batch, producers = 20, 4
	batches := make(chan int, messages/batch)
	for i := range messages / batch {
		batches <- i
	}
	close(batches)
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for i := range batches {
				for rand.IntN(10) == 0 {
					sendBatch(t, db, box, i, batch, keys, false)
				}
				sendBatch(t, db, box, i, batch, keys, true)
			}
		})
	}
	all.Wait()
}

func sendBatch(t *testing.T, db *pgtest.DB, box *outbox.Outbox, i, batch, keys int, commit bool) {
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer tx.Rollback(t.Context())
	msgs := make([]outbox.Message, batch)
	sent := &pgx.Batch{}
	for k := range msgs {
		key, n := fmt.Sprint("key ", rand.IntN(keys)), strconv.Itoa(i*batch+k)
		msgs[k] = outbox.Message{Topic: "t", Key: key, Payload: []byte(n)}
		sent.Queue("INSERT INTO sent (key, n) VALUES ($1, $2)", key, n)
	}
	if _, err := box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...); err != nil {
		t.Error(err)
		return
	}
	if err := tx.SendBatch(t.Context(), sent).Close(); err != nil {
		t.Error(err)
		return
	}
	if rand.IntN(20) == 0 {
		time.Sleep(rand.N(20 * time.Millisecond))
	}
	if !commit {
		return
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}
