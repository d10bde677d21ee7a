package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A batched is what a batch handler of any table gets of a row: nothing but its id.
type batched struct{}

// handOver runs a worker with a batch handler over the first lane until no row is left. One call runs at a time.
func (s *suite) handOver(handle func(batch []*workqueue.Claim[batched]) []error) {
	s.Helper()
	var mu sync.Mutex
	batch, err := workqueue.NewBatch(workqueue.BatchOptions{Limit: 8}, nil,
		func(_ context.Context, batch []*workqueue.Claim[batched]) ([]error, error) {
			mu.Lock()
			defer mu.Unlock()
			return handle(batch), nil
		})
	s.ok(err)
	domain := workqueue.Domain[batched]{Table: s.table, Columns: func(_ *batched, c *workqueue.Columns) {
		for _, column := range s.Spec.Columns {
			c.Field(column, nil)
		}
	}}
	if len(s.Spec.Lanes) > 0 {
		domain.Lanes = [][]any{s.Lanes[0]}
	}
	w, err := workqueue.NewBatchWorker(s.db.Pool, domain, batch, workqueue.WorkerOptions{})
	s.ok(err)
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	done := pgtest.Await(pgtest.Patience, func() bool {
		return len(s.query("SELECT id FROM $T WHERE completed_at IS NULL")) == 0
	})
	stop()
	s.ok(<-ended)
	if !done {
		s.Fatal("rows are left")
	}
}

// keyedRows writes so many rows of each key, in turns.
func (s *suite) keyedRows(n int, keys ...string) (ids []uuid.UUID) {
	s.Helper()
	var rows []workqueue.NewRow
	for range n {
		for _, key := range keys {
			rows = append(rows, s.keyed(key))
		}
	}
	inserted, err := s.write(rows...)
	s.ok(err)
	for _, in := range inserted {
		ids = append(ids, in.ID)
	}
	return ids
}

// brokenRuns are rows in progress whose key has another token in progress, or a row before them that is not.
const brokenRuns = `SELECT r.id FROM $T AS r JOIN $T AS o ON o.` + keyColumn + ` = r.` + keyColumn + `
	WHERE r.status = 1 AND (o.status = 1 AND o.owner_token <> r.owner_token
		OR o.completed_at IS NULL AND o.status <> 1 AND o.key_seq < r.key_seq)`

// The rows of a key that a batch handler gets together are a run: while they are in progress, they carry one token, and
// are the first of their key. They are done in their order, also if one of them fails at first.
func handsOverRuns(s *suite) {
	ids := s.keyedRows(15, "a", "b")
	fails := ids[12]
	ended := map[string][]uuid.UUID{}
	var problems []error
	longest := 0
	s.handOver(func(batch []*workqueue.Claim[batched]) []error {
		if broken := s.query(brokenRuns); len(broken) > 0 {
			problems = append(problems, fmt.Errorf("%v are in progress beside or behind others", broken))
		}
		results, failed, sizes := make([]error, len(batch)), map[string]bool{}, map[string]int{}
		for i, c := range batch {
			key := "a"
			if slices.Index(ids, c.ID)%2 == 1 {
				key = "b"
			}
			sizes[key]++
			longest = max(longest, sizes[key])
			switch {
			case c.ID == fails && c.Attempt == 1:
				results[i], failed[key] = workqueue.RetryAfter(0, errors.New(cause)), true
			case !failed[key]:
				ended[key] = append(ended[key], c.ID)
			}
		}
		return results
	})
	s.ok(errors.Join(problems...))
	for i, key := range []string{"a", "b"} {
		var want []uuid.UUID
		for ; i < len(ids); i += 2 {
			want = append(want, ids[i])
		}
		if !slices.Equal(ended[key], want) {
			s.Fatalf("of key %s %v have ended, want in this order %v", key, ended[key], want)
		}
	}
	if longest < 2 {
		s.Fatal("no run has several rows")
	}
}

// If the lease of a run is lost, no row behind its head is charged an attempt.
func chargesTheHeadOfALostRun(s *suite) {
	s.keyedRows(6, "a")
	lost := 0
	s.handOver(func(batch []*workqueue.Claim[batched]) []error {
		if lost == 0 && len(batch) > 1 {
			lost = len(batch)
			s.exec("UPDATE $T SET locked_until = now() - interval '1 hour' WHERE status = 1")
			_, err := s.table.On(s.db.Pool).ReapExpired(s.Context(), 100)
			s.ok(err)
			if charged := s.query("SELECT id FROM $T AS r WHERE attempts > 0 AND completed_at IS NULL AND EXISTS (SELECT FROM $T AS o " +
				"WHERE o.completed_at IS NULL AND o." + keyColumn + " = r." + keyColumn +
				" AND o.key_seq < r.key_seq)"); len(charged) > 0 {
				s.Errorf("%d rows behind the head of a lost run are charged", len(charged))
			}
		}
		return make([]error, len(batch))
	})
	if lost < 2 {
		s.Fatal("no run was lost")
	}
}
