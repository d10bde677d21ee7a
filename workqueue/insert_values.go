package workqueue

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// An insertion is the values of one insert, by column.
type insertion struct {
	table   *Table
	ids     []uuid.UUID
	fields  []gathered // those of [view.insertFields]
	guarded bool       // some row may hold unique values
	once    []bool     // the rows that are written Once; nil: none
}

// Where the core's columns are among the fields.
const (
	dueField = iota
	attemptsField
	waitingField
	headersField
	retryField
	firstColumn
)

// A gathered column is one value until a row differs, and an array from then on.
type gathered struct {
	first any
	each  []any
}

func (g *gathered) add(i, n int, v any) {
	switch {
	case g.each != nil:
		g.each[i] = v
	case i == 0:
		g.first = v
	case !same(g.first, v):
		g.each = make([]any, n)
		for k := range i {
			g.each[k] = g.first
		}
		g.each[i] = v
	}
}

// same compares values of columns, but not bytes: payloads differ.
func same(a, b any) bool {
	_, isBytes := a.([]byte)
	return !isBytes && a == b
}

// newInsertion gathers the values of rows that have been checked.
func (t *Table) newInsertion(ctx context.Context, rows []NewRow) (*insertion, error) {
	n, trace := len(rows), telemetry.TraceHeaders(ctx)
	in := &insertion{table: t, ids: make([]uuid.UUID, n), fields: make([]gathered, firstColumn+len(t.spec.Columns))}
	for i, row := range rows {
		core, err := row.coreValues(trace)
		if err != nil {
			return nil, err
		}
		for f, v := range core {
			in.fields[f].add(i, n, v)
		}
		for c, v := range row.Values {
			in.fields[firstColumn+c].add(i, n, v)
		}
		if in.ids[i] = row.ID; row.ID == uuid.Nil {
			if in.ids[i], err = uuid.NewV7(); err != nil {
				return nil, err
			}
		}
		if row.Once {
			if in.once == nil {
				in.once = make([]bool, n)
			}
			in.once[i] = true
		}
	}
	return in, nil
}

// coreValues returns the values of the core's fields; nil is the default.
func (r *NewRow) coreValues(trace map[string]string) (v [firstColumn]any, err error) {
	if !r.DueAt.IsZero() {
		v[dueField] = storedTime(r.DueAt)
	}
	if r.MaxAttempts != 0 {
		v[attemptsField] = int64(r.MaxAttempts)
	}
	if r.Waiting {
		v[waitingField] = true
	}
	if r.Retry != (Retry{}) {
		if v[retryField], err = r.Retry.stored(); err != nil {
			return v, err
		}
	}
	headers, err := header.Encode(r.Headers, trace)
	if headers != "" {
		v[headersField] = headers
	}
	return v, err
}

// run inserts and then looks up the rows that have the ids or hold the unique values. It returns the ids that it has
// written. Of a row that was neither written nor found, enqueued has no id.
func (in *insertion) run(ctx context.Context, tx Tx, enqueued []Enqueued) ([]uuid.UUID, error) {
	for i, id := range in.ids {
		enqueued[i] = Enqueued{ID: id}
	}
	text, args := in.statement()
	if !in.guarded && in.once == nil {
		n, err := tx.Exec(ctx, text, args...)
		switch {
		case err != nil:
			return nil, err
		case n != int64(len(in.ids)):
			return nil, in.table.suppressed()
		}
		return in.ids, nil
	}
	written := make([]uuid.UUID, 0, len(in.ids))
	var id uuid.UUID
	dest := []any{&id} // once for all rows
	err := tx.Query(ctx, func(scan func(...any) error) error {
		if err := scan(dest...); err != nil {
			return err
		}
		written = append(written, id)
		return nil
	}, text, args...)
	if err != nil || len(written) == len(in.ids) {
		return written, err
	}
	return written, in.markDuplicates(ctx, tx, enqueued, written)
}

// statement returns the statement that sends what was gathered, and its arguments.
func (in *insertion) statement() (text string, args []any) {
	forms := make([]byte, len(in.fields))
	for i := range in.fields {
		switch g := &in.fields[i]; {
		case g.each != nil:
			forms[i] = byte(varying)
		case g.first != nil:
			forms[i] = byte(common)
		default:
			forms[i] = byte(absent)
		}
	}
	unique := in.table.view.uniqueColumns
	in.guarded = len(unique) > 0
	for _, c := range unique { // a row without one of them holds none
		in.guarded = in.guarded && forms[firstColumn+c] != byte(absent)
	}
	one := len(in.ids) == 1
	s := in.table.inserts.of(shape{forms: string(forms), one: one, guarded: in.guarded, once: in.once != nil})
	args = make([]any, len(s.args))
	for i, field := range s.args {
		switch {
		case field == idArg && one:
			args[i] = in.ids[0]
		case field == idArg:
			args[i] = in.ids
		case in.fields[field].each != nil:
			args[i] = in.fields[field].each
		default:
			args[i] = in.fields[field].first
		}
	}
	return s.text, args
}

func (in *insertion) markDuplicates(ctx context.Context, tx Tx, inserted []Enqueued, written []uuid.UUID) error {
	done := make(map[uuid.UUID]bool, len(written))
	for _, id := range written {
		done[id] = true
	}
	for i := range inserted {
		if !done[inserted[i].ID] {
			inserted[i] = Enqueued{Duplicate: true}
		}
	}
	if in.guarded {
		if err := tx.run(ctx, in.find(in.table.statements().findUnique, in.uniqueArgs(), inserted, nil)); err != nil {
			return err
		}
	}
	if in.once == nil {
		return nil
	}
	// A row that was written before is that, whoever holds its unique values.
	return tx.run(ctx, in.find(in.table.statements().findIDs, map[string]any{"ids": in.ids}, inserted, in.once))
}

// find looks for the existing rows of those that were not inserted. Nil means all of these.
func (in *insertion) find(s conn.Statement, args map[string]any, inserted []Enqueued, of []bool) conn.Call {
	return conn.Call{Statement: s, Args: args, Row: func(scan func(...any) error) error {
		var ord int
		var id uuid.UUID
		err := scan(&ord, &id)
		if err == nil && inserted[ord-1].Duplicate && (of == nil || of[ord-1]) {
			inserted[ord-1].ID = id
		}
		return err
	}}
}

// uniqueArgs returns the unique columns as arrays, even where all rows have the same value.
func (in *insertion) uniqueArgs() map[string]any {
	args := map[string]any{}
	for _, c := range in.table.view.uniqueColumns {
		g := in.fields[firstColumn+c]
		if g.each == nil {
			g.each = slices.Repeat([]any{g.first}, len(in.ids))
		}
		args[in.table.view.Columns[c].Param] = g.each
	}
	return args
}
