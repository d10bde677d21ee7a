package conformance

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// call calls the function that writes rows.
func (s *suite) call(row workqueue.NewRow) (e workqueue.Enqueued, err error) {
	err = s.try(func(ctx context.Context, o ops) (err error) {
		e, err = o.(functionOps).calledOne(ctx, row)
		return err
	})
	return e, err
}

// canWrite reports whether the function can write a row.
func (s *suite) canWrite(row workqueue.NewRow) bool {
	spec := s.table.Spec()
	return spec.Writer.Change == "" && functionOps{spec: spec}.called(row).exact()
}

// The function writes the core's columns as Go does.
func functionWrites(s *suite) {
	write := func(e effect, edit func(*workqueue.NewRow)) {
		s.Helper()
		row := s.newRow()
		edit(&row)
		if !s.canWrite(row) {
			return
		}
		id := s.newlyInserted(fresh.with(e), func() uuid.UUID {
			written, err := s.call(row)
			s.ok(err)
			equal(s, "duplicate", written.Duplicate, false)
			return written.ID
		})
		equal(s, "version of the id", id.Version(), 7)
	}
	write(effect{"max_attempts": is(s.table.Spec().MaxAttempts)}, func(*workqueue.NewRow) {})
	due := s.clock().Add(time.Hour)
	write(effect{"due_at": at(due), "max_attempts": is(3), "headers": is(map[string]any{"k": `"v" \ {}`})},
		func(row *workqueue.NewRow) {
			row.DueAt, row.MaxAttempts, row.Headers = due, 3, map[string]string{"k": `"v" \ {}`}
		})
	write(effect{}, func(row *workqueue.NewRow) { row.DueAt = due.Add(-24 * time.Hour) }) // a past time means now
}

// The function tells duplicates, whatever their state, and changes nothing.
func functionTellsDuplicates(s *suite) {
	n := taken
	if !s.canWrite(s.same(n)) { // such as a step of a join
		n++
	}
	if !s.canWrite(s.same(n)) || len(s.Spec.Unique) == 0 {
		return
	}
	holder, err := s.call(s.same(n))
	s.ok(err)
	for range 2 {
		s.unchanged([]uuid.UUID{holder.ID}, func() {
			again, err := s.call(s.same(n))
			s.ok(err)
			equal(s, "written", again, workqueue.Enqueued{ID: holder.ID, Duplicate: true})
		})
		s.set("status = 2, completed_at = now()", holder.ID)
	}
	s.exec("DELETE FROM $T")
	got := make([]workqueue.Enqueued, 8)
	s.together(len(got), func(i int) (err error) {
		got[i], err = s.call(s.same(n))
		return err
	})
	equal(s, "rows", scan[int](s, "SELECT count(*) FROM $T"), 1)
	for _, written := range got {
		equal(s, "id", written.ID, got[0].ID)
	}
}
