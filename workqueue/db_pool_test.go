package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// After a failover the connections to the old primary are useless. If one was kept, the pool would give it out again.
func TestAConnectionToAReadOnlyServerIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.insert("a")
	r.exec(pgtest.RefusingWrites("notes"))
	var connected atomic.Int32
	pool := r.openPool(func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			if connected.Add(1) > 1 {
				return nil // the new primary
			}
			_, err := conn.Exec(ctx, "SET "+pgtest.RefuseWrites+" = on")
			return err
		}
	})
	claim := func() (int, error) {
		rows, err := r.Table.On(pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		return len(rows), err
	}
	if _, err := claim(); !errors.Is(err, workqueue.ErrReadOnly) {
		t.Fatalf("error %v, want ErrReadOnly", err)
	}
	if n, err := claim(); n != 1 || err != nil {
		t.Errorf("the next call claimed %d rows, error %v", n, err)
	}
}

// Batches lock their rows in the order of the ids, whatever order they were given in and wherever the rows lie in the
// table. Otherwise two batches that share rows would wait for each other.
func TestBatchesLockInTheOrderOfIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare string // after the claim
		call    func(q *workqueue.Queue, ctx context.Context, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	}{
		"ack": {"", (*workqueue.Queue).Ack},
		"cancel": {"", func(q *workqueue.Queue, ctx context.Context, _ uuid.UUID, ids []uuid.UUID) ([]uuid.UUID,
			error) {
			return q.Cancel(ctx, ids, "")
		}},
		"redrive": {"SELECT notes_fail(owner_token, ARRAY[id], 'no good') FROM notes", func(q *workqueue.Queue,
			ctx context.Context, _ uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Redrive(ctx, ids, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			ids := make([]uuid.UUID, 3)
			for i := range ids {
				ids[i] = uuid.UUID{15: byte(len(ids) - i)}
				r.insertRows(workqueue.NewRow{ID: ids[i], Values: []any{"a", "a"}})
			}
			token := workqueue.NewOwnerToken()
			if rows, err := r.Queue.Claim(t.Context(), token, time.Minute, 10); len(rows) != len(ids) || err != nil {
				t.Fatalf("claimed %d rows, error %v", len(rows), err)
			}
			if c.prepare != "" {
				r.exec(c.prepare)
			}
			application, err := r.Eyes.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer application.Rollback(t.Context())
			if _, err := application.Exec(t.Context(), "SELECT FROM notes WHERE id = $1 FOR UPDATE",
				ids[1]); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := c.call(r.Queue, t.Context(), token, slices.Clone(ids))
				done <- err
			}()
			r.eventually("the call waits for the application", func() bool {
				return pgtest.SomebodyWaits(t, r.Eyes, r.Table.Name())
			})
			free := ask[[]uuid.UUID](r, "SELECT array_agg(id) FROM (SELECT id FROM notes FOR UPDATE SKIP LOCKED) AS t")
			if !slices.Equal(free, ids[:1]) {
				t.Errorf("%v are free, want the one behind what it waits for", free)
			}
			if err := application.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, done, "the call"); err != nil {
				t.Error(err)
			}
		})
	}
}
