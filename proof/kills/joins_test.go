package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Each join has stepsOfAJoin steps, and in one of unlucky joins a step fails for good.
const (
	stepsOfAJoin = 10
	unlucky      = 20
)

// relayJoins delivers steps, some of which it settles too late, and writes an effect for each continuation.
func relayJoins(ctx context.Context, pool *pgxpool.Pool, schema, _ string) error {
	box, err := openOutbox(schema, outbox.Unordered)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(pool, box, outbox.RelayOptions{WorkerOptions: workerOptions()})
	if err != nil {
		return err
	}
	r.Handle("step", func(_ context.Context, m *outbox.Delivery) error {
		if rand.IntN(50) == 0 {
			return errors.New("by chance")
		}
		return nil
	})
	r.Handle("bad step", func(context.Context,
		*outbox.Delivery) error {
		return workqueue.Permanent(errors.New("for good"))
	})
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
		return m.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects (label, topic) VALUES ($1, $2)", m.Key, m.Topic)
			return err
		})
	})
	return r.Run(ctx)
}

// Each join continues exactly once, with the outcome of the join.
func TestJoins(t *testing.T) {
	t.Parallel()
	joins := size(500, 10_000)
	db, box := newOutbox(t, outbox.Unordered)
	execute(t, db, "CREATE TABLE effects (label text, topic text)")
	start := time.Now()
	crew := startCrew(t, db, "joins", 4, time.Second, box.Table())
	startJoins(t, db, box, joins)
	crew.until("continuations", joins, func() int { return ask[int](t, db, "SELECT count(*)::int FROM effects") })
	crew.until("settled messages", 0, func() int {
		return -ask[int](t, db, "SELECT count(*)::int FROM outbox WHERE "+
			"status < 2")
	})
	kills := crew.killed()
	crew.stop()

	effects := ask[int](t, db, "SELECT count(*)::int FROM effects")
	labels := ask[int](t, db, "SELECT count(DISTINCT label)::int FROM effects")
	wrong := ask[int](t, db, `
		SELECT count(*)::int FROM outbox_join AS j LEFT JOIN effects AS e ON e.label = j.label
		WHERE e.topic IS DISTINCT FROM CASE WHEN j.label LIKE '%bad' THEN 'failed' ELSE 'completed' END
		   OR j.succeeded + j.failed <> j.expected`)
	attempts := ask[int](t, db, "SELECT sum(attempts)::int FROM outbox WHERE topic = 'step'")
	if effects != joins || labels != joins || wrong > 0 {
		t.Errorf("%d joins: %d continuations of %d joins, %d joins with the wrong one or a wrong count", joins, effects,
			labels, wrong)
	}
	t.Logf("joins %d, steps %d, continuations %d, wrong %d, processes killed %d, attempts of steps %d, %.1f s",
		joins, joins*stepsOfAJoin, effects, wrong, kills, attempts, time.Since(start).Seconds())
}

func startJoins(t *testing.T, db *pgtest.DB, box *outbox.Outbox, joins int) {
	t.Helper()
	numbers := make(chan int, joins)
	for i := range joins {
		numbers <- i
	}
	close(numbers)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range numbers {
				if err := startJoin(t.Context(), db, box, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func startJoin(ctx context.Context, db *pgtest.DB, box *outbox.Outbox, i int) error {
	steps := make([]outbox.Message, stepsOfAJoin)
	for k := range steps {
		steps[k] = outbox.Message{Topic: "step"}
	}
	label := fmt.Sprint("join ", i)
	if i%unlucky == 0 {
		steps[rand.IntN(stepsOfAJoin)].Topic = "bad step"
		label += " bad"
	}
	return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		_, err := box.StartJoin(ctx, workqueue.Pgx(tx), outbox.Join{
			Label: label, Steps: steps,
			OnComplete: &outbox.Message{Topic: "completed", Key: label}, OnFail: &outbox.Message{Topic: "failed",
				Key: label},
		})
		return err
	})
}
