package workqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A NewRow is a row to enqueue. The zero value of every field but Values is usable.
type NewRow struct {
	// ID defaults to a new UUID version 7, so that keys grow with time.
	ID uuid.UUID
	// DueAt is when the row may first be claimed, by the database's clock. Zero or past: now.
	DueAt time.Time
	// MaxAttempts defaults to the table's.
	MaxAttempts int
	// Retry is the row's own backoff in the place of the table's, for a reported failure and an ended lease
	// alike. Default: none.
	Retry *Retry
	// Waiting holds the row back: it is Ready, but nothing claims it until somebody releases it, such as
	// the settle of the row before it or the end of a join. It costs claims nothing.
	Waiting bool
	// Headers travel with the row. The trace context of ctx is added to them.
	Headers map[string]string
	// Values are the domain's columns, in the order of Spec.Columns; nil is NULL.
	Values []any
}

// Inserted is what became of a [NewRow].
type Inserted struct {
	ID uuid.UUID
	// Duplicate says that nothing was written: ID is the row that holds the same unique values.
	Duplicate bool
}

// Check reports the first of the rows that Insert would refuse, without touching the database.
func (t *Table) Check(rows ...NewRow) error {
	for i, row := range rows {
		err := t.checkNewRow(row)
		for c := 0; err == nil && c < len(row.Values); c++ {
			_, err = t.converters[c].convert(row.Values[c])
		}
		if err != nil {
			return inRow(i, len(rows), err)
		}
	}
	return nil
}

// inRow says which of the rows an error is about. One row needs no number.
func inRow(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("row %d of %d: %w", i+1, n, err)
}

// Insert enqueues up to [MaxBatch] rows in the application's transaction, in one statement: they exist if
// and only if it commits. Everything is validated before anything is sent. The results are in the order
// of the rows.
func (t *Table) Insert(ctx context.Context, tx Tx, rows ...NewRow) ([]Inserted, error) {
	if tx == nil {
		return nil, Invalid("transaction", "is nil")
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if len(rows) > MaxBatch {
		return nil, Invalid("rows", "has %d of them, at most %d fit one call", len(rows), MaxBatch)
	}
	batch, err := t.newInsert(rows)
	if err != nil {
		return nil, err
	}
	var inserted []Inserted
	err = t.telemetry.transition(ctx, opEnqueue, len(rows), func(ctx context.Context) (ids []uuid.UUID, err error) {
		if err := batch.setHeaders(ctx, rows); err != nil {
			return nil, err
		}
		inserted, ids, err = t.insert(ctx, tx, rows, batch)
		return ids, err
	})
	return inserted, err
}

// insert writes rows and looks up the holders of unique values that were taken. A holder may be deleted
// between the two; then the values are free, and the row is written after all.
func (t *Table) insert(ctx context.Context, tx Tx, rows []NewRow, batch *insertion) ([]Inserted, []uuid.UUID, error) {
	inserted, written, err := batch.run(ctx, tx)
	for i := 0; err == nil && i < len(inserted); i++ {
		if inserted[i].ID != uuid.Nil {
			continue
		}
		if inserted[i], err = t.insertOne(ctx, tx, rows[i]); err == nil && !inserted[i].Duplicate {
			written = append(written, inserted[i].ID)
		}
	}
	return inserted, written, err
}

// maxVanished is how often in a row the holder of a row's unique values may vanish.
const maxVanished = 10

func (t *Table) insertOne(ctx context.Context, tx Tx, row NewRow) (Inserted, error) {
	for range maxVanished {
		batch, err := t.newInsert([]NewRow{row})
		if err == nil {
			err = batch.setHeaders(ctx, []NewRow{row})
		}
		if err != nil {
			return Inserted{}, err
		}
		inserted, _, err := batch.run(ctx, tx)
		if err != nil {
			return Inserted{}, err
		}
		if inserted[0].ID != uuid.Nil {
			return inserted[0], nil
		}
	}
	return Inserted{}, t.suppressed()
}

func (t *Table) suppressed() error {
	return fmt.Errorf("txwork: %s took a row and stored none: does a trigger, a rule or a policy of the table suppress it?", t.Name())
}

// checkNewRow checks what is the core's of a row.

func (t *Table) checkNewRow(row NewRow) error {
	if len(row.Values) != len(t.spec.Columns) {
		return Invalid("values", "has %d values, %s has %d columns", len(row.Values), t.Name(), len(t.spec.Columns))
	}
	if row.MaxAttempts < 0 || row.MaxAttempts > maxAttemptsLimit {
		return Invalid("max attempts", "is %d, it must be between 1 and %d, or 0 for the default", row.MaxAttempts, maxAttemptsLimit)
	}
	if err := checkDue(row.DueAt); err != nil {
		return err
	}
	if row.Retry != nil {
		if err := row.Retry.validate(); err != nil {
			return err
		}
	}
	for k, v := range row.Headers {
		if err := FirstError(CheckText("header name", k), CheckText("header "+k, v)); err != nil {
			return err
		}
	}
	return nil
}

// maxAttemptsLimit is far more than anybody tries and far from overflowing anything.
const maxAttemptsLimit = 1_000_000

// An insertion is the values of one insert, by column.
type insertion struct {
	table   *Table
	ids     []uuid.UUID
	fields  []gathered // those of [view.insertFields]
	guarded bool       // some row holds unique values
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

func (g *gathered) form() form {
	switch {
	case g.each != nil:
		return varying
	case g.first == nil:
		return absent
	}
	return common
}

func (g *gathered) value() any {
	if g.each != nil {
		return g.each
	}
	return g.first
}

// newInsert checks the rows and gathers what they have. The headers come later: they depend on the trace.
func (t *Table) newInsert(rows []NewRow) (*insertion, error) {
	in := &insertion{table: t, ids: make([]uuid.UUID, len(rows)), fields: make([]gathered, firstColumn+len(t.spec.Columns))}
	for i, row := range rows {
		err := t.checkNewRow(row)
		if err == nil {
			err = in.set(i, row)
		}
		if err != nil {
			return nil, inRow(i, len(rows), err)
		}
	}
	return in, nil
}

func (in *insertion) set(i int, row NewRow) (err error) {
	in.ids[i] = row.ID
	if row.ID == uuid.Nil {
		if in.ids[i], err = uuid.NewV7(); err != nil {
			return err
		}
	}
	n := len(in.ids)
	in.fields[dueField].add(i, n, optional(storedTime(row.DueAt)))
	in.fields[attemptsField].add(i, n, optional(int64(row.MaxAttempts)))
	in.fields[waitingField].add(i, n, optional(row.Waiting))
	retry, err := row.Retry.stored()
	if err != nil {
		return err
	}
	in.fields[retryField].add(i, n, optional(retry))
	for c, v := range row.Values {
		if v, err = in.table.converters[c].convert(v); err != nil {
			return err
		}
		in.fields[firstColumn+c].add(i, n, v)
	}
	in.guarded = in.guarded || in.table.holdsUnique(row)
	return nil
}

// optional is a value of which the zero stands for none.
func optional[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// holdsUnique reports whether no unique value of the row is certainly NULL.
func (t *Table) holdsUnique(row NewRow) bool {
	for _, i := range t.view.uniqueColumns {
		if row.Values[i] == nil {
			return false
		}
	}
	return len(t.view.uniqueColumns) > 0
}

func (in *insertion) setHeaders(ctx context.Context, rows []NewRow) error {
	trace := traceHeaders(ctx)
	for i, row := range rows {
		headers, err := encodeHeaders(row.Headers, trace)
		if err != nil {
			return err
		}
		in.fields[headersField].add(i, len(rows), optional(headers))
	}
	return nil
}

// encodeHeaders merges the trace context under the caller's own headers, which win.
func encodeHeaders(own, trace map[string]string) (string, error) {
	if len(own)+len(trace) == 0 {
		return "", nil
	}
	all := make(map[string]string, len(own)+len(trace))
	for k, v := range trace {
		all[k] = v
	}
	for k, v := range own {
		all[k] = v
	}
	encoded, err := json.Marshal(all)
	return string(encoded), err
}

// run inserts and then looks up the holders of unique values that were taken.
func (in *insertion) run(ctx context.Context, tx Tx) ([]Inserted, []uuid.UUID, error) {
	inserted := make([]Inserted, len(in.ids))
	for i, id := range in.ids {
		inserted[i] = Inserted{ID: id}
	}
	insert := call{statement: in.table.inserts.of(in.shape()), args: in.args(), unpinned: true}
	if !in.guarded {
		n, err := Exec(ctx, tx, insert.text, insert.arguments()...)
		switch {
		case err != nil:
			return nil, nil, err
		case n != int64(len(in.ids)):
			return nil, nil, in.table.suppressed()
		}
		return inserted, in.ids, nil
	}
	written := make([]uuid.UUID, 0, len(in.ids))
	returned := collectIDs(insert.statement, insert.args, &written)
	returned.unpinned = true
	if err := tx.run(ctx, returned); err != nil || len(written) == len(in.ids) {
		return inserted, written, err
	}
	return inserted, written, in.markDuplicates(ctx, tx, inserted, written)
}

func (in *insertion) shape() shape {
	forms := make([]byte, len(in.fields))
	for i := range in.fields {
		forms[i] = byte(in.fields[i].form())
	}
	return shape{forms: string(forms), one: len(in.ids) == 1, guarded: in.guarded}
}

func (in *insertion) args() map[string]any {
	args := map[string]any{"id": in.ids[0], "ids": in.ids}
	for i, f := range in.table.inserts.fields {
		if v := in.fields[i].value(); v != nil {
			args[f.Param] = v
		}
	}
	return args
}

func (in *insertion) markDuplicates(ctx context.Context, tx Tx, inserted []Inserted, written []uuid.UUID) error {
	done := make(map[uuid.UUID]bool, len(written))
	for _, id := range written {
		done[id] = true
	}
	for i := range inserted {
		if !done[inserted[i].ID] {
			inserted[i] = Inserted{Duplicate: true}
		}
	}
	return tx.run(ctx, call{
		statement: in.table.statements.findUnique,
		args:      in.uniqueArgs(),
		row: func(scan func(...any) error) error {
			var ord int
			var id uuid.UUID
			err := scan(&ord, &id)
			if err == nil && inserted[ord-1].Duplicate {
				inserted[ord-1].ID = id
			}
			return err
		},
	})
}

// uniqueArgs are arrays, also of what the rows have in common.
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
