package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// writing returns a call of the function that writes rows, which returns the row's id. It is false for a row that the
// function cannot write.
func (o functionOps) writing(row workqueue.NewRow) (query string, args []any, ok bool) {
	if row.ID != uuid.Nil || row.Waiting || row.Retry != (workqueue.Retry{}) || o.spec.Writer.None ||
		o.spec.Writer.Change != "" { // such a function is no insert
		return "", nil, false
	}
	var params []string
	add := func(name, typ string, value any) {
		args = append(args, value)
		params = append(params, fmt.Sprintf("%q => $%d::%s", name, len(args), typ))
	}
	for i, c := range o.spec.Columns {
		switch {
		case isParameter(c):
			add(c.Name, c.Type, row.Values[i])
		case row.Values[i] != nil:
			return "", nil, false
		case c.Written != nil && slices.ContainsFunc(c.Written.Params, func(p workqueue.Param) bool {
			return p.Name == "ordered"
		}):
			add("ordered", "boolean", false)
		}
	}
	if !row.DueAt.IsZero() {
		add("scheduled_at", "timestamptz", row.DueAt)
	}
	if row.MaxAttempts > 0 {
		add("max_attempts", "integer", row.MaxAttempts)
	}
	if row.Headers != nil {
		encoded, err := json.Marshal(row.Headers)
		if err != nil {
			return "", nil, false
		}
		add("headers", "jsonb", string(encoded))
	}
	return fmt.Sprintf("SELECT id FROM %s_%s(%s)", o.spec.Name(), cmp.Or(o.spec.Writer.Name, "enqueue"),
		strings.Join(params, ", ")), args, true
}

// enqueue calls the function that writes many rows. What it has no parameter for, such as that a row is a step of a
// join, is left out.
func (o functionOps) enqueue(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
	objects := make([]map[string]any, len(rows))
	for i, row := range rows {
		objects[i] = o.object(row)
	}
	list, err := o.tx.Query(ctx, fmt.Sprintf("SELECT id, duplicate, replaced FROM %s_%s_many($1::jsonb) ORDER BY place",
		o.spec.Name(), cmp.Or(o.spec.Writer.Name, "enqueue")), described([]any{objects})...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(list, pgx.RowToStructByPos[workqueue.Enqueued])
}

// object is a row for the function that writes many rows.
func (o functionOps) object(row workqueue.NewRow) map[string]any {
	object := map[string]any{}
	if row.ID != uuid.Nil {
		object["id"] = row.ID
	}
	if !row.DueAt.IsZero() {
		object["scheduled_at"] = row.DueAt
	}
	if row.MaxAttempts > 0 {
		object["max_attempts"] = row.MaxAttempts
	}
	if row.Headers != nil {
		object["headers"] = row.Headers
	}
	for i, c := range o.spec.Columns {
		value := row.Values[i]
		switch {
		case c.Name == "unique_key" && value != nil: // which the function begins with the kind
			_, object[c.Name], _ = strings.Cut(value.(string), "\x1f")
		case c.Name == "unique_states" && value != nil:
			object["unique_while"] = []string{"done", "failed"}
		case !isParameter(c), value == nil:
		case c.Type == "bytea":
			object[c.Name+"_base64"] = value
		default:
			object[c.Name] = value
		}
		if c.Written != nil && slices.ContainsFunc(c.Written.Params, func(p workqueue.Param) bool {
			return p.Name == "ordered"
		}) {
			object["ordered"] = false
		}
	}
	return object
}

// isParameter reports whether the value of a column is a parameter of its name, as it stands.
func isParameter(c workqueue.Column) bool {
	if c.Written == nil {
		return !c.Internal
	}
	return len(c.Written.Params) == 1 && c.Written.Params[0].Name == c.Name && c.Name != "unique_key"
}

// call calls the function that writes rows.
func (s *suite) call(row workqueue.NewRow) (e workqueue.Enqueued, err error) {
	err = s.try(func(ctx context.Context, o ops) error {
		f := o.(functionOps)
		query, args, _ := f.writing(row)
		query = strings.Replace(query, "SELECT id", "SELECT id, duplicate", 1)
		return f.tx.QueryRow(ctx, query, described(args)...).Scan(&e.ID, &e.Duplicate)
	})
	return e, err
}

// canWrite reports whether the function can write a row.
func (s *suite) canWrite(row workqueue.NewRow) bool {
	_, _, ok := functionOps{spec: s.table.Spec()}.writing(row)
	return ok
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
