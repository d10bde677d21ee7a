package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// write inserts rows, and tells duplicates.
func (s *suite) write(rows ...workqueue.NewRow) (inserted []workqueue.Enqueued, err error) {
	err = s.try(func(ctx context.Context, o ops) (err error) {
		inserted, err = o.enqueue(ctx, rows...)
		return err
	})
	return inserted, err
}

// once is write for rows whose unique values may be taken: the row that is there stays as it is.
func (s *suite) once(rows ...workqueue.NewRow) (inserted []workqueue.Enqueued, err error) {
	err = s.try(func(ctx context.Context, o ops) (err error) {
		inserted, err = o.once(ctx, rows...)
		return err
	})
	return inserted, err
}

// fresh is what the core's columns of a new row contain.
var fresh = effect{
	"status": is(0), "due_at": now, "created_at": now, "attempts": is(0), "locked_until": null, "owner_token": null,
	"completed_at": null, "failed_at": null, "cancelled_at": null, "last_error": null, "headers": null,
	"waiting": is(false), "retry": null,
}

// newlyInserted checks the core's columns of a row that insert writes.
func (s *suite) newlyInserted(e effect, insert func() uuid.UUID) uuid.UUID {
	s.Helper()
	o := observation{start: s.clock()}
	id := insert()
	o.end = s.clock()
	row := s.record(id)
	for column, wanted := range e {
		if problem := wanted(row[column], o); problem != "" {
			s.Errorf("%s: is %v, %s", column, row[column], problem)
		}
	}
	return id
}

func insertDefaults(s *suite) {
	e := fresh.with(effect{"max_attempts": is(s.table.Spec().MaxAttempts)})
	a := s.newlyInserted(e, func() uuid.UUID { return s.ready(1)[0] })
	b := s.newlyInserted(e, func() uuid.UUID { return s.ready(1)[0] })
	equal(s, "version of the id", a.Version(), 7)
	length := len(a.String())
	if s.way.functions { // ids of one millisecond have no order among several calls
		length = len("01234567-89ab")
	}
	equal(s, "ids grow", a.String()[:length] <= b.String()[:length], true)
}

func insertFields(s *suite) {
	due := s.clock().Add(time.Hour)
	row := s.callable()
	row.ID, row.DueAt, row.MaxAttempts, row.Headers = uuid.New(), due, 3, map[string]string{"k": `"v" \ {}`}
	id := s.newlyInserted(fresh.with(effect{"due_at": at(due), "max_attempts": is(3),
		"headers": is(map[string]any{"k": `"v" \ {}`})}),
		func() uuid.UUID {
			inserted, err := s.write(row)
			s.ok(err)
			return inserted[0].ID
		})
	equal(s, "id", id, row.ID)
}

// A past time means now.
func insertInThePast(s *suite) {
	row := s.callable()
	row.DueAt = s.clock().Add(-23 * time.Hour)
	s.newlyInserted(fresh, func() uuid.UUID {
		inserted, err := s.write(row)
		s.ok(err)
		return inserted[0].ID
	})
}

// A batch is one statement, and its results have the order of its rows.
func insertBatch(s *suite) {
	rows := make([]workqueue.NewRow, 300)
	for i := range rows {
		rows[i] = s.newRow()
		rows[i].Headers = map[string]string{"n": fmt.Sprint(i)}
	}
	inserted, err := s.write(rows...)
	s.ok(err)
	order := s.query("SELECT id FROM $T ORDER BY (headers ->> 'n')::int")
	for i, in := range inserted {
		equal(s, "result", in, workqueue.Enqueued{ID: order[i]})
	}

	none, err := s.write()
	s.ok(err)
	equal(s, "results of nothing", len(none), 0)
}

func idsOf(inserted []workqueue.Enqueued) []uuid.UUID {
	ids := make([]uuid.UUID, len(inserted))
	for i, in := range inserted {
		ids[i] = in.ID
	}
	return ids
}

// same makes a row with the unique values of the n-th row.
func (s *suite) same(n int) workqueue.NewRow { return workqueue.NewRow{Values: s.values(n, 0)} }

const taken = 1_000_000 // larger than any number that newRow uses

// A duplicate changes nothing and reports the existing row, whatever its state.
func duplicateReportsTheHolder(s *suite) {
	holder, err := s.once(s.same(taken))
	s.ok(err)
	check := func() {
		s.Helper()
		s.unchanged(idsOf(holder), func() {
			again := s.same(taken)
			again.DueAt, again.MaxAttempts, again.Headers = s.clock().Add(time.Hour), 3, map[string]string{"k": "v"}
			got, err := s.once(again)
			s.ok(err)
			equal(s, "inserted", got[0], workqueue.Enqueued{ID: holder[0].ID, Duplicate: true})
		})
	}
	check()
	c := s.claim(1)
	check()
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	check()
	equal(s, "rows", scan[int](s, "SELECT count(*) FROM $T"), 1)
}

func duplicateInsideABatch(s *suite) {
	holder, err := s.once(s.same(taken))
	s.ok(err)
	got, err := s.once(s.same(taken+1), s.same(taken), s.same(taken+2), s.same(taken+1), s.same(taken+1))
	s.ok(err)
	want := []workqueue.Enqueued{
		{ID: got[0].ID}, {ID: holder[0].ID, Duplicate: true}, {ID: got[2].ID},
		{ID: got[0].ID, Duplicate: true}, {ID: got[0].ID, Duplicate: true},
	}
	if !slices.Equal(got, want) {
		s.Fatalf("got %v, want %v", got, want)
	}
	s.sameIDs(s.query("SELECT id FROM $T"), []uuid.UUID{holder[0].ID, got[0].ID, got[2].ID})
}

// A row with NULL in a unique column has no unique key.
func nullIsNeverADuplicate(s *suite) {
	for i, c := range s.Spec.Columns {
		if c.NotNull || !slices.Contains(s.Spec.Unique, c.Name) {
			continue
		}
		row := s.same(taken)
		row.Values[i] = nil
		got, err := s.once(row, row)
		s.ok(err)
		equal(s, "duplicates", got[0].Duplicate || got[1].Duplicate || got[0].ID == got[1].ID, false)
	}
}

func concurrentDuplicates(s *suite) {
	const writers, keys = 8, 20
	got := make([][]workqueue.Enqueued, writers)
	s.together(writers, func(i int) (err error) {
		rows := make([]workqueue.NewRow, keys)
		for n := range rows {
			rows[n] = s.same(taken + n)
		}
		got[i], err = s.once(rows...)
		return err
	})
	equal(s, "rows", scan[int](s, "SELECT count(*) FROM $T"), keys)
	for n := range keys {
		var writes int
		for i := range writers {
			equal(s, "id", got[i][n].ID, got[0][n].ID)
			if !got[i][n].Duplicate {
				writes++
			}
		}
		equal(s, "writes of one key", writes, 1)
	}
}

// While the holder of the key is not committed, a second writer of the key waits. If the holder rolls back, the second
// writer gets the key.
func duplicateOfARolledBackRow(s *suite) {
	holder, err := s.eyes.Begin(s.Context())
	s.ok(err)
	defer holder.Rollback(context.WithoutCancel(s.Context()))
	_, err = s.table.Insert(s.Context(), workqueue.Pgx(holder), s.same(taken))
	s.ok(err)

	var got []workqueue.Enqueued
	s.together(2, func(i int) (err error) {
		if i == 0 {
			got, err = s.once(s.same(taken))
			return err
		}
		return s.whenBlockedBy(holder, func() error { return holder.Rollback(context.WithoutCancel(s.Context())) })
	})
	equal(s, "duplicate", got[0].Duplicate, false)
	s.sameIDs(s.query("SELECT id FROM $T"), idsOf(got))
}

// whenBlockedBy runs fn as soon as another session waits for the transaction.
func (s *suite) whenBlockedBy(tx pgx.Tx, fn func() error) error {
	pid := tx.Conn().PgConn().PID()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var blocked bool
		err := s.eyes.QueryRow(s.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY "+
			"(pg_blocking_pids(pid)))", int32(pid)).Scan(&blocked)
		if err != nil {
			return err
		}
		if blocked {
			return fn()
		}
	}
	return fmt.Errorf("nobody waits for the transaction: %w", fn())
}
