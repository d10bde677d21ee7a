package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

func claimsInOrder(s *suite) {
	ids := s.ready(20)
	for i, id := range ids { // several rows share a due time, and due order differs from insert order
		s.set(fmt.Sprintf("due_at = now() - interval '%d minutes'", (i*7)%5+1), id)
	}
	s.exec("UPDATE $T SET due_at = date_trunc('minute', due_at)")
	order := s.query("SELECT id FROM $T ORDER BY due_at, id")

	for _, n := range []int{3, 10, 7} {
		got := s.claim(n).ids
		if !slices.Equal(got, order[:n]) {
			s.Fatalf("got %v, want in this order %v", got, order[:n])
		}
		order = order[n:]
	}
}

func claimsAtMostItsLimit(s *suite) {
	s.ready(10)
	for _, c := range []struct{ limit, want int }{{1, 1}, {4, 4}, {100, 5}, {100, 0}} {
		equal(s, fmt.Sprintf("rows of a claim of %d", c.limit), len(s.claim(c.limit).ids), c.want)
	}
	equal(s, "rows in progress", scan[int](s, "SELECT count(*) FROM $T WHERE status = 1"), 10)
}

func claimEffect(s *suite) {
	id := s.ready(1)[0]
	token := workqueue.NewOwnerToken()
	s.expect(id, effect{
		"status": is(1), "attempts": is(1), "owner_token": is(token), "locked_until": in(90 * time.Second),
	}, func() {
		s.do(func(ctx context.Context, o ops) error {
			ids, err := o.claim(ctx, token, 90*time.Second, 1, s.Lanes[0]...)
			s.sameIDs(ids, []uuid.UUID{id})
			return err
		})
	})
}

// The database's clock decides what is due, so the test moves the row into that clock's past and future.
func claimsNothingBeforeItIsDue(s *suite) {
	id := s.ready(1, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(time.Hour) })[0]
	s.expect(id, effect{}, func() { equal(s, "rows", len(s.claim(10).ids), 0) })

	s.set("due_at = now() + interval '10 seconds'", id)
	s.expect(id, effect{}, func() { equal(s, "rows", len(s.claim(10).ids), 0) })

	s.set("due_at = now()", id)
	s.sameIDs(s.claim(10).ids, []uuid.UUID{id})
}

func claimsOnlyReadyRows(s *suite) {
	held := s.claimed(3)
	s.do(func(ctx context.Context, o ops) error { _, err := o.ack(ctx, held.token, held.ids[:1]); return err })
	s.do(func(ctx context.Context, o ops) error {
		_, err := o.fail(ctx, held.token, held.ids[1:2], "no")
		return err
	})
	s.expire(held.ids[2]) // an expired lease is for the reaper, not for the next claim

	s.unchanged(held.ids, func() { equal(s, "rows", len(s.claim(10).ids), 0) })
}

func claimsUpToTheMaximum(s *suite) {
	const most = 3
	id := s.ready(1, maxAttempts(most))[0]
	for attempt := 1; attempt <= most; attempt++ {
		c := s.claim(10)
		s.sameIDs(c.ids, []uuid.UUID{id})
		equal(s, "attempts", scan[int](s, "SELECT attempts FROM $T WHERE id = $1", id), attempt)
		s.do(func(ctx context.Context, o ops) error {
			_, err := o.abandon(ctx, c.token, c.ids, 0, "again")
			return err
		})
	}
	equal(s, "status", s.status(id), workqueue.Failed)
	equal(s, "rows of one more claim", len(s.claim(10).ids), 0)
}

// Every row is claimed exactly once, none is left over, and no claim exceeds its limit.
func claimsEachRowOnce(s *suite) {
	const rows, claimers, limit = 1000, 8, 23
	s.ready(rows)
	var mu sync.Mutex
	claims := map[uuid.UUID]int{}
	count := func(ids []uuid.UUID) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			claims[id]++
		}
	}
	s.together(claimers, func(int) error {
		for s.anyReady() {
			err := s.try(func(ctx context.Context, o ops) error {
				ids, err := o.claim(ctx, workqueue.NewOwnerToken(), lease, limit, s.Lanes[0]...)
				if len(ids) > limit {
					return fmt.Errorf("a claim of %d got %d rows", limit, len(ids))
				}
				count(ids)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	equal(s, "rows claimed", len(claims), rows)
	for id, n := range claims {
		equal(s, "claims of "+id.String(), n, 1)
	}
	equal(s, "rows with one attempt", scan[int](s, "SELECT count(*) FROM $T WHERE attempts = 1 AND status = 1"), rows)
}

func (s *suite) anyReady() bool {
	var any bool
	err := s.eyes.QueryRow(s.Context(), s.sql("SELECT EXISTS (SELECT FROM $T WHERE status = 0)")).Scan(&any)
	return err == nil && any
}

func claimSkipsLockedRows(s *suite) {
	ids := s.ready(4)
	s.locked(ids[:2], func() { s.sameIDs(s.claim(10).ids, ids[2:]) })
	s.sameIDs(s.claim(10).ids, ids[:2])
}

// A claim returns the values that the row has.
func claimReturnsTheRow(s *suite) {
	id := s.ready(1, func(row *workqueue.NewRow) {
		row.MaxAttempts = 7
		row.Headers = map[string]string{"tenant": "a \"b\" \\ c"}
	})[0]
	s.set("attempts = 2", id)
	token := workqueue.NewOwnerToken()
	var rows []workqueue.Row
	s.do(func(ctx context.Context, o ops) (err error) {
		rows, err = o.fetch(ctx, token, lease, 10, s.Lanes[0]...)
		return err
	})
	equal(s, "rows", len(rows), 1)
	row, stored := rows[0], s.record(id)
	equal(s, "id", row.ID, id)
	equal(s, "token", row.Token, token)
	equal(s, "attempt", row.Attempt, 3)
	equal(s, "max attempts", row.MaxAttempts, 7)
	equal(s, "header", row.Headers["tenant"], "a \"b\" \\ c")
	equal(s, "due", row.DueAt.UTC(), stored.time("due_at").UTC())
	equal(s, "created", row.CreatedAt.UTC(), stored.time("created_at").UTC())
	claimed := slices.DeleteFunc(slices.Clone(s.Spec.Columns), func(c workqueue.Column) bool { return c.Internal })
	equal(s, "values", len(row.Values), len(claimed))
	for i, c := range claimed {
		equal(s, c.Name+" is NULL", row.Values[i] == nil, stored[c.Name] == nil)
		if c.Type == "text" {
			equal(s, c.Name, fmt.Sprint(row.Values[i]), fmt.Sprint(stored[c.Name]))
		}
	}
}

// A claim of one lane neither takes nor touches another's rows.
func lanesAreApart(s *suite) {
	first := s.ready(3)
	second := s.ready(2, func(row *workqueue.NewRow) { row.Values = s.values(int(s.rows.Add(1)), 1) })

	claimLane := func(lane int) (ids []uuid.UUID) {
		s.do(func(ctx context.Context, o ops) (err error) {
			ids, err = o.claim(ctx, workqueue.NewOwnerToken(), lease, 10, s.Lanes[lane]...)
			return err
		})
		return ids
	}
	s.unchanged(first, func() { s.sameIDs(claimLane(1), second) })
	s.unchanged(second, func() { s.sameIDs(claimLane(0), first) })
	equal(s, "rows left", len(claimLane(0))+len(claimLane(1)), 0)
}

func lanesKeepTheirOrder(s *suite) {
	lane := 0
	ids := s.ready(6, func(row *workqueue.NewRow) {
		lane = 1 - lane
		row.Values = s.values(int(s.rows.Add(1)), lane)
	})
	for _, i := range rand.Perm(len(ids)) {
		s.set(fmt.Sprintf("due_at = now() - interval '%d minutes'", i+1), ids[i])
	}
	claimed := s.claim(10).ids
	var order []uuid.UUID
	for _, id := range s.query("SELECT id FROM $T ORDER BY due_at, id") {
		if slices.Contains(claimed, id) {
			order = append(order, id)
		}
	}
	equal(s, "rows of the lane", len(claimed), 3)
	if !slices.Equal(claimed, order) {
		s.Fatalf("got %v, want in this order %v", claimed, order)
	}
}
