package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// drain claims rows of the first lane, at most limit at a time, and acks them, or retries those that again says at
// once, until there is nothing to do. It returns the rows in the order in which they ran. In SQL it is a loop of a
// fetch that goes on behind the last one, a settle with an outcome for each row, and a fold.
func (s *suite) drain(limit int, again func(workqueue.Row) bool) (order []uuid.UUID) {
	s.Helper()
	var cursor *string
	for range 1000 {
		var f fetched
		s.do(func(ctx context.Context, o ops) (err error) {
			token := workqueue.NewOwnerToken()
			if inSQL, ok := o.(functionOps); ok {
				f, err = inSQL.fetchAt(ctx, cursor, token, lease, limit, s.Lanes[0]...)
			} else {
				f.rows, err = o.fetch(ctx, token, lease, limit, s.Lanes[0]...)
			}
			return err
		})
		s.do(func(ctx context.Context, o ops) error { return settleEach(ctx, o, f.rows, again) })
		cursor = f.cursor
		if folded := s.fold(); folded == 0 && len(f.rows) == 0 && !f.more {
			return order
		}
		order = append(order, idsOfRows(f.rows)...)
	}
	s.Fatal("there is always something to do")
	return nil
}

func settleEach(ctx context.Context, o ops, rows []workqueue.Row, again func(workqueue.Row) bool) error {
	outcomes := []outcome{}
	for _, row := range rows {
		st := outcome{"id": row.ID, "token": row.Token, "outcome": "ack"}
		if again(row) {
			st["outcome"], st["delay"], st["error"] = "retry", 0, cause
		}
		outcomes = append(outcomes, st)
	}
	if f, ok := o.(functionOps); ok {
		_, err := f.settleEach(ctx, outcomes)
		return err
	}
	for i, row := range rows {
		settle := o.ack
		if outcomes[i]["outcome"] == "retry" {
			settle = func(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
				return o.abandon(ctx, owner, ids, 0, cause)
			}
		}
		if _, err := settle(ctx, row.Token, []uuid.UUID{row.ID}); err != nil {
			return err
		}
	}
	return nil
}

// fold applies the notes of settles. It commits, so it is no operation in a caller's transaction.
func (s *suite) fold() (folded int) {
	s.Helper()
	if !s.way.functions {
		folded, err := s.table.On(s.db.Pool).Fold(s.Context())
		s.ok(err)
		return folded
	}
	var cursor *string
	var againIn float64
	var busy bool
	s.ok(s.eyes.QueryRow(s.Context(), s.sql("CALL $T_fold()")).Scan(&cursor, &folded, &againIn, &busy))
	return folded
}

// A drain runs what is due until it has ended, in due order, and leaves all other rows alone. What is put back comes
// again, behind the others.
func drains(s *suite) {
	due := s.ready(25)
	others := slices.Concat(s.waiting(1),
		s.ready(1, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(time.Hour) }))
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for i, id := range due {
		s.set(fmt.Sprintf("due_at = now() - interval '%d minutes'", len(due)-i), id)
	}
	s.unchanged(others, func() {
		order := s.drain(7, func(row workqueue.Row) bool {
			return row.Attempt == 1 && slices.Index(due, row.ID)%3 == 0
		})
		var twice []uuid.UUID
		for i := 0; i < len(due); i += 3 {
			twice = append(twice, due[i])
		}
		if want := slices.Concat(due, twice); !slices.Equal(order[:min(len(due), len(order))], due) {
			s.Fatalf("the rows %v ran, want in this order %v", order, want)
		}
		s.sameIDs(order[len(due):], twice)
	})
	s.sameIDs(s.query("SELECT id FROM $T WHERE status <> 2"), others)
}

// keyed makes a row that waits for those of its key.
func (s *suite) keyed(key string) workqueue.NewRow {
	row := s.newRow()
	for i, c := range s.Spec.Columns {
		switch c.Name {
		case keyColumn, "key":
			row.Values[i] = key
		case "key_limit":
			row.Values[i] = 0
		case "key_policy":
			row.Values[i] = 1
		case "joined":
			row.Values[i] = nil
		}
	}
	if s.way.functions && (functionOps{spec: s.table.Spec()}).called(row).direct() {
		s.Fatal("the functions have no parameter for the key")
	}
	return row
}

// The rows of a key run in the order in which they were written, however many a claim may take.
func drainsAKey(s *suite) {
	var rows []workqueue.NewRow
	for range 5 {
		rows = append(rows, s.keyed("a"), s.keyed("b"))
	}
	inserted, err := s.write(rows...)
	s.ok(err)
	order := s.drain(4, func(row workqueue.Row) bool { return row.Attempt == 1 && row.ID == inserted[2].ID })
	for key := range 2 {
		var want, got []uuid.UUID
		for i := key; i < len(inserted); i += 2 {
			want = append(want, inserted[i].ID)
		}
		for _, id := range order {
			if slices.Contains(want, id) && !slices.Contains(got, id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			s.Fatalf("the rows %v ran, want in this order %v", got, want)
		}
	}
	equal(s, "attempts", len(order), len(rows)+1)
}

// The rows of a key wait from the start. A fold releases the first, and the next when that has ended.
func insertsBehindItsKey(s *suite) {
	insert := func() uuid.UUID {
		return s.newlyInserted(fresh.with(effect{"waiting": is(true)}), func() uuid.UUID {
			inserted, err := s.write(s.keyed("c"))
			s.ok(err)
			return inserted[0].ID
		})
	}
	first, second := insert(), insert()
	s.sameIDs(s.claim(10).ids, nil)
	s.unchanged([]uuid.UUID{second}, func() {
		s.fold()
		c := s.claim(10)
		s.sameIDs(c.ids, []uuid.UUID{first})
		s.settled(s.ackSettle(), c.token, c.ids, c.ids, nil, nil)
	})
	s.fold()
	s.sameIDs(s.claim(10).ids, []uuid.UUID{second})
}
