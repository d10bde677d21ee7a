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
		if err := t.checkNewRow(row); err != nil {
			if len(rows) == 1 {
				return err
			}
			return fmt.Errorf("row %d of %d: %w", i+1, len(rows), err)
		}
	}
	return nil
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
	if err := t.Check(rows...); err != nil {
		return nil, err
	}
	var inserted []Inserted
	err := t.telemetry.transition(ctx, opEnqueue, len(rows), func(ctx context.Context) (ids []uuid.UUID, err error) {
		inserted, ids, err = t.insert(ctx, tx, rows)
		return ids, err
	})
	return inserted, err
}

// insert writes rows and looks up the holders of unique values that were taken. A holder may be deleted
// between the two; then the values are free, and the row is written after all.
func (t *Table) insert(ctx context.Context, tx Tx, rows []NewRow) ([]Inserted, []uuid.UUID, error) {
	batch, err := t.newInsert(ctx, rows)
	if err != nil {
		return nil, nil, err
	}
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
		batch, err := t.newInsert(ctx, []NewRow{row})
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
	return Inserted{}, fmt.Errorf("txwork: %s took a row and stored none: does a trigger, a rule or a policy of the table suppress it?", t.Name())
}

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
	for i, c := range t.spec.Columns {
		if _, err := columnValue(c, row.Values[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxAttemptsLimit is far more than anybody tries and far from overflowing anything.
const maxAttemptsLimit = 1_000_000

// An insertion is the arrays of one insert.
type insertion struct {
	table    *Table
	ids      []uuid.UUID
	due      []*time.Time
	attempts []*int64
	waiting  []bool
	headers  []*string
	retry    []*string
	columns  [][]any
}

func (t *Table) newInsert(ctx context.Context, rows []NewRow) (*insertion, error) {
	n := len(rows)
	in := &insertion{
		table: t, ids: make([]uuid.UUID, n), due: make([]*time.Time, n),
		attempts: make([]*int64, n), waiting: make([]bool, n), headers: make([]*string, n), retry: make([]*string, n), columns: make([][]any, len(t.spec.Columns)),
	}
	for c := range in.columns {
		in.columns[c] = make([]any, n)
	}
	trace := traceHeaders(ctx)
	for i, row := range rows {
		if err := in.set(i, row, trace); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (in *insertion) set(i int, row NewRow, trace map[string]string) (err error) {
	in.ids[i] = row.ID
	if row.ID == uuid.Nil {
		if in.ids[i], err = uuid.NewV7(); err != nil {
			return err
		}
	}
	if !row.DueAt.IsZero() {
		in.due[i] = &row.DueAt
	}
	if row.MaxAttempts > 0 {
		n := int64(row.MaxAttempts)
		in.attempts[i] = &n
	}
	in.waiting[i] = row.Waiting
	if in.retry[i], err = row.Retry.stored(); err != nil {
		return err
	}
	if in.headers[i], err = encodeHeaders(row.Headers, trace); err != nil {
		return err
	}
	for c, v := range row.Values {
		if in.columns[c][i], err = columnValue(in.table.spec.Columns[c], v); err != nil {
			return err
		}
	}
	return nil
}

// encodeHeaders merges the trace context under the caller's own headers, which win.
func encodeHeaders(own, trace map[string]string) (*string, error) {
	if len(own)+len(trace) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(own)+len(trace))
	for k, v := range trace {
		all[k] = v
	}
	for k, v := range own {
		all[k] = v
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	s := string(encoded)
	return &s, nil
}

// run inserts and then looks up the holders of unique values that were taken.
func (in *insertion) run(ctx context.Context, tx Tx) ([]Inserted, []uuid.UUID, error) {
	args := map[string]any{"ids": in.ids, "due_at": in.due, "max_attempts": in.attempts, "waiting": in.waiting, "headers": in.headers, "retry": in.retry}
	for c, v := range in.table.view.Columns {
		args[v.Param] = in.columns[c]
	}
	var written []uuid.UUID
	insert := collectIDs(in.table.statements.insert, args, &written)
	insert.unpinned = true
	if err := tx.run(ctx, insert); err != nil {
		return nil, nil, err
	}
	inserted := make([]Inserted, len(in.ids))
	for i, id := range in.ids {
		inserted[i] = Inserted{ID: id}
	}
	if len(written) == len(in.ids) {
		return inserted, written, nil
	}
	return inserted, written, in.markDuplicates(ctx, tx, inserted, written)
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
	if len(in.table.view.Unique) == 0 {
		return nil // nothing is taken: something of the table suppressed the rows
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

func (in *insertion) uniqueArgs() map[string]any {
	args := map[string]any{}
	for _, c := range in.table.view.Unique {
		i := slices.IndexFunc(in.table.view.Columns, func(v columnView) bool { return v.Name == c.Name })
		args[c.Param] = in.columns[i]
	}
	return args
}
