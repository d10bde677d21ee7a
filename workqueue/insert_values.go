package workqueue

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// An insertion is the values of one insert, by column.
type insertion struct {
	table   *Table
	ids     []uuid.UUID
	fields  []gathered // those of [view.insertFields]
	guarded bool       // some row holds unique values
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

// newInsert checks the rows and gathers their values. The headers come later, because they depend on the trace.
func (t *Table) newInsert(rows []NewRow) (*insertion, error) {
	in := &insertion{table: t, ids: make([]uuid.UUID, len(rows)), fields: make([]gathered,
		firstColumn+len(t.spec.Columns))}
	for i, row := range rows {
		if err := in.set(i, row); err != nil {
			return nil, inRow(i, len(rows), err)
		}
	}
	return in, nil
}

// set gathers the values of a row, which it checks unless that was done before.
func (in *insertion) set(i int, row NewRow) (err error) {
	isChecked := row.checked == in.table
	if !isChecked {
		if err := in.table.checkNewRow(row); err != nil {
			return err
		}
	}
	in.ids[i] = row.ID
	if row.ID == uuid.Nil {
		if in.ids[i], err = uuid.NewV7(); err != nil {
			return err
		}
	}
	n := len(in.ids)
	in.fields[dueField].add(i, n, postgres.OrNull(storedTime(row.DueAt)))
	in.fields[attemptsField].add(i, n, postgres.OrNull(int64(row.MaxAttempts)))
	in.fields[waitingField].add(i, n, postgres.OrNull(row.Waiting))
	retry, err := row.Retry.stored()
	if err != nil {
		return err
	}
	in.fields[retryField].add(i, n, postgres.OrNull(retry))
	for c, v := range row.Values {
		if !isChecked {
			if v, err = in.table.converters[c].convert(v); err != nil {
				return err
			}
		}
		in.fields[firstColumn+c].add(i, n, v)
	}
	in.guarded = in.guarded || in.table.holdsUnique(row)
	if row.Once {
		if in.once == nil {
			in.once = make([]bool, n)
		}
		in.once[i] = true
	}
	return nil
}

// holdsUnique reports whether the row may hold unique values, because none of them is nil.
func (t *Table) holdsUnique(row NewRow) bool {
	for _, i := range t.view.uniqueColumns {
		if row.Values[i] == nil {
			return false
		}
	}
	return len(t.view.uniqueColumns) > 0
}

func (in *insertion) setHeaders(ctx context.Context, rows []NewRow) error {
	trace := telemetry.TraceHeaders(ctx)
	for i, row := range rows {
		headers, err := header.Encode(row.Headers, trace)
		if err != nil {
			return err
		}
		in.fields[headersField].add(i, len(rows), postgres.OrNull(headers))
	}
	return nil
}

// run inserts and then looks up the rows that have the ids or hold the unique values.
func (in *insertion) run(ctx context.Context, tx Tx) ([]Enqueued, []uuid.UUID, error) {
	inserted := make([]Enqueued, len(in.ids))
	for i, id := range in.ids {
		inserted[i] = Enqueued{ID: id}
	}
	shape, args := in.gathered()
	insert := conn.Call{Statement: in.table.inserts.of(shape), Args: args, Unpinned: true}
	if !in.guarded && in.once == nil {
		n, err := tx.Exec(ctx, insert.Text, insert.Arguments()...)
		switch {
		case err != nil:
			return nil, nil, err
		case n != int64(len(in.ids)):
			return nil, nil, in.table.suppressed()
		}
		return inserted, in.ids, nil
	}
	written := make([]uuid.UUID, 0, len(in.ids))
	returned := collectIDs(insert.Statement, insert.Args, &written)
	returned.Unpinned = true
	if err := tx.run(ctx, returned); err != nil || len(written) == len(in.ids) {
		return inserted, written, err
	}
	return inserted, written, in.markDuplicates(ctx, tx, inserted, written)
}

// gathered returns what was gathered: the shape of the statement, and its arguments.
func (in *insertion) gathered() (shape, map[string]any) {
	forms, args := make([]byte, len(in.fields)), map[string]any{"id": in.ids[0], "ids": in.ids}
	for i, f := range in.table.inserts.fields {
		form := absent
		switch g := &in.fields[i]; {
		case g.each != nil:
			form, args[f.Param] = varying, g.each
		case g.first != nil:
			form, args[f.Param] = common, g.first
		}
		forms[i] = byte(form)
	}
	return shape{forms: string(forms), one: len(in.ids) == 1, guarded: in.guarded, once: in.once != nil}, args
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
		if err := tx.run(ctx, in.find(in.table.statements.findUnique, in.uniqueArgs(), inserted, nil)); err != nil {
			return err
		}
	}
	if in.once == nil {
		return nil
	}
	// A row that was written before is that, whoever holds its unique values.
	return tx.run(ctx, in.find(in.table.statements.findIDs, map[string]any{"ids": in.ids}, inserted, in.once))
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
