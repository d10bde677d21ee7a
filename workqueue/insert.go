package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
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
	// alike. Zero: that of the table.
	Retry Retry
	// Waiting holds the row back: it is Ready, but nothing claims it until it is released, such as by the settle of the
	// row before it or by the end of a join. It costs claims nothing.
	Waiting bool
	// Once says that ID identifies what is enqueued, such as the occurrence of a schedule. If there is a row with it,
	// nothing is written, and the result is a Duplicate with this ID. Otherwise such a call is an error.
	Once bool
	// Headers travel with the row. The trace context of ctx is added to them.
	Headers map[string]string
	// Values are the domain's columns, in the order of Spec.Columns; nil is NULL.
	Values []any

	checked *Table // the table that has checked the row: its Values then have the form in which they are stored
}

// Stored is the row's headers, with the trace context of ctx, and its own backoff as the table keeps them, nil for
// none: for the statements of a domain that replace an existing row.
func (r NewRow) Stored(ctx context.Context) (headers, retry *string, err error) {
	h, err := header.Encode(r.Headers, telemetry.TraceHeaders(ctx))
	if err != nil {
		return nil, nil, err
	}
	s, err := r.Retry.stored()
	return conn.OptionalText(h), conn.OptionalText(s), err
}

// Enqueued is what became of something that was enqueued: a row, a message, a job or a timer.
type Enqueued struct {
	ID uuid.UUID
	// Duplicate says that no new row was written: ID is that of the existing row with the same unique values or, of a
	// row that is written Once, with the same ID.
	Duplicate bool
	// Replaced says of a Duplicate that the existing row has become what was enqueued. Otherwise it stays as it was.
	Replaced bool
}

// IDs returns the ids of the rows, in their order.
func IDs(enqueued []Enqueued) []uuid.UUID {
	ids := make([]uuid.UUID, len(enqueued))
	for i, e := range enqueued {
		ids[i] = e.ID
	}
	return ids
}

// Check reports why Insert would refuse a row, without touching the database. It brings the elements of row.Values into
// the form in which they are stored, and Insert takes them as they are then: change none of them afterwards. Once an
// error was returned, the row is of no use.
func (t *Table) Check(row *NewRow) error {
	if err := t.checkNewRow(*row); err != nil {
		return err
	}
	for c, v := range row.Values {
		var err error
		if row.Values[c], err = t.converters[c].convert(v); err != nil {
			return err
		}
	}
	row.checked = t
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
func (t *Table) Insert(ctx context.Context, tx Tx, rows ...NewRow) ([]Enqueued, error) {
	if tx == nil {
		return nil, invalid("transaction", "is nil")
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if len(rows) > MaxBatch {
		return nil, invalid("rows", "has %d of them, at most %d fit one call", len(rows), MaxBatch)
	}
	batch, err := t.newInsert(rows)
	if err != nil {
		return nil, err
	}
	ctx, call := t.telemetry.Start(ctx, telemetry.Enqueue, len(rows))
	var inserted []Enqueued
	var ids []uuid.UUID
	if err = batch.setHeaders(ctx, rows); err == nil {
		inserted, ids, err = t.insert(ctx, tx, rows, batch)
	}
	e := telemetry.Event{IDs: ids, Err: err}
	if err == nil {
		e.Rows = &sentRows{labels: t.labels.written, rows: rows, inserted: inserted}
	}
	call.End(e)
	return inserted, err
}

// InsertBy is [Table.Insert] for rows that are stored elsewhere, such as in a log: it checks them, gives them ids, and
// tells of them, and write stores them and returns what became of each. The headers are as Insert would store them, nil
// for NULL.
func (t *Table) InsertBy(ctx context.Context, rows []NewRow, write func(ctx context.Context, ids []uuid.UUID,
	headers []*string) ([]Enqueued, error)) ([]Enqueued, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	batch, err := t.newInsert(rows)
	if err != nil {
		return nil, err
	}
	ctx, call := t.telemetry.Start(ctx, telemetry.Enqueue, len(rows))
	trace, headers := telemetry.TraceHeaders(ctx), make([]*string, len(rows))
	for i := 0; err == nil && i < len(rows); i++ {
		var h string
		h, err = header.Encode(rows[i].Headers, trace)
		headers[i] = conn.OptionalText(h)
	}
	var inserted []Enqueued
	if err == nil {
		inserted, err = write(ctx, batch.ids, headers)
	}
	e := telemetry.Event{Err: err}
	if err == nil {
		e.Rows = &sentRows{labels: t.labels.written, rows: rows, inserted: inserted}
		for _, row := range inserted {
			if !row.Duplicate {
				e.IDs = append(e.IDs, row.ID)
			}
		}
	}
	call.End(e)
	return inserted, err
}

// insert writes rows and looks up the rows that have their ids or hold their unique values. Such a row may be deleted
// between the two; then both are free, and the row is written after all.
func (t *Table) insert(ctx context.Context, tx Tx, rows []NewRow, batch *insertion) ([]Enqueued, []uuid.UUID, error) {
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

func (t *Table) insertOne(ctx context.Context, tx Tx, row NewRow) (Enqueued, error) {
	for range maxVanished {
		batch, err := t.newInsert([]NewRow{row})
		if err == nil {
			err = batch.setHeaders(ctx, []NewRow{row})
		}
		if err != nil {
			return Enqueued{}, err
		}
		inserted, _, err := batch.run(ctx, tx)
		if err != nil {
			return Enqueued{}, err
		}
		if inserted[0].ID != uuid.Nil {
			return inserted[0], nil
		}
	}
	if row.Once { // row-level security may hide the row with the id
		return Enqueued{ID: row.ID, Duplicate: true}, nil
	}
	return Enqueued{}, t.suppressed()
}

func (t *Table) suppressed() error {
	return fmt.Errorf("txwork: %s took a row and stored none: does a trigger, a rule or a policy of the table "+
		"suppress it?", t.Name())
}

// checkNewRow checks the fields of a row that belong to the core.
func (t *Table) checkNewRow(row NewRow) error {
	if len(row.Values) != len(t.spec.Columns) {
		return invalid("values", "has %d values, %s has %d columns", len(row.Values), t.Name(), len(t.spec.Columns))
	}
	if row.Once && row.ID == uuid.Nil {
		return invalid("ID", "is missing: a row that is written Once is identified by it")
	}
	if row.MaxAttempts < 0 || row.MaxAttempts > maxAttemptsLimit {
		return invalid("max attempts", "is %d, it must be between 1 and %d, or 0 for the default", row.MaxAttempts,
			maxAttemptsLimit)
	}
	if err := checkDue(row.DueAt); err != nil {
		return err
	}
	if row.Retry != (Retry{}) {
		if err := row.Retry.validate(); err != nil {
			return err
		}
	}
	for k, v := range row.Headers {
		if err := cmp.Or(checkText("header name", k), checkText("header "+k, v)); err != nil {
			return err
		}
	}
	return nil
}

// sentRows are the rows of an enqueue that were written. They implement [telemetry.Rows], and look for duplicates only
// if somebody asks for a row.
type sentRows struct {
	labels   []int // where they are among the values
	rows     []NewRow
	inserted []Enqueued
	places   []int // of those that were written
}

func (r *sentRows) Len() int {
	if r.places == nil {
		r.places = make([]int, 0, len(r.inserted))
		for i, row := range r.inserted {
			if !row.Duplicate {
				r.places = append(r.places, i)
			}
		}
	}
	return len(r.places)
}

func (r *sentRows) Row(i int) telemetry.Row {
	i = r.places[i]
	return telemetry.Row{ID: r.inserted[i].ID, Labels: telemetry.Pick(r.labels, r.rows[i].Values), Delay: -1}
}
