package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/postgres"
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
	size    int    // of the bytes among them, and of the headers
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
	row.size = 0
	if len(row.Headers) > 0 {
		if err := t.checkHeaders(row); err != nil {
			return err
		}
	}
	for c, v := range row.Values {
		stored, err := t.converters[c].convert(v)
		if err != nil {
			return err
		}
		if b, is := stored.([]byte); is {
			row.size += len(b)
		}
		row.Values[c] = stored
	}
	row.checked = t
	return nil
}

func (t *Table) checkHeaders(row *NewRow) error {
	for name, value := range row.Headers {
		if err := cmp.Or(checkText("header name", name), checkText("header "+name, value)); err != nil {
			return err
		}
		row.size += len(name) + len(value)
	}
	if limit := t.spec.MaxHeaders; limit > 0 && row.size > limit {
		return invalid("headers", "has %d bytes, the limit is %d", row.size, limit)
	}
	return nil
}

// checked returns the rows, checked. Those that Check has not seen are changed in a copy.
func (t *Table) checked(rows []NewRow) ([]NewRow, error) {
	copied := false
	for i := range rows {
		if rows[i].checked == t {
			continue
		}
		if !copied {
			rows, copied = slices.Clone(rows), true
		}
		rows[i].Values = slices.Clone(rows[i].Values)
		if err := t.Check(&rows[i]); err != nil {
			return nil, &ItemError{Item: "row", Index: i, Count: len(rows), Err: err}
		}
	}
	return rows, nil
}

// Insert enqueues rows in the application's transaction: they exist if and only if it commits. It takes as few
// statements as possible, each with up to [MaxBatch] rows and 16 MiB of bytes and headers. Everything is validated
// before anything is sent; an [*ItemError] says which row was refused and why. The results are in the order of the
// rows.
func (t *Table) Insert(ctx context.Context, tx Tx, rows ...NewRow) ([]Enqueued, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if tx == nil {
		return nil, invalid("transaction", "is nil")
	}
	rows, err := t.checked(rows)
	if err != nil {
		return nil, err
	}
	enqueued := make([]Enqueued, len(rows))
	for at, end := 0, 0; at < len(rows); at = end {
		end = at + fitting(rows[at:])
		if err := t.insert(ctx, tx, rows[at:end], enqueued[at:end]); err != nil {
			return nil, err
		}
	}
	return enqueued, nil
}

// fitting returns how many of the rows, which have been checked, one statement takes.
func fitting(rows []NewRow) int {
	return postgres.Fitting(rows, MaxBatch, func(row *NewRow) int { return row.size })
}

// insert writes the rows of one statement.
func (t *Table) insert(ctx context.Context, tx Tx, rows []NewRow, enqueued []Enqueued) error {
	ctx, call := t.telemetry.Start(ctx, telemetry.Enqueue, len(rows))
	var written []uuid.UUID
	in, err := t.newInsertion(ctx, rows)
	if err == nil {
		written, err = in.run(ctx, tx, enqueued)
	}
	if err == nil && len(written) < len(rows) {
		written, err = t.insertMissing(ctx, tx, rows, enqueued, written)
	}
	e := telemetry.Event{IDs: written, Err: err}
	if err == nil {
		e.Rows = &sentRows{labels: t.labels.written, rows: rows, inserted: enqueued}
	}
	call.End(e)
	return err
}

// InsertBy is [Table.Insert] for rows that are stored elsewhere, such as in a log: it checks them, gives them ids, and
// tells of them, and write stores those of one statement, the first of which is rows[first], and returns what became of
// each. The headers are as Insert would store them, nil for NULL.
func (t *Table) InsertBy(ctx context.Context, rows []NewRow, write func(ctx context.Context, first int,
	ids []uuid.UUID, headers []*string) ([]Enqueued, error)) ([]Enqueued, error) {
	rows, err := t.checked(rows)
	if err != nil {
		return nil, err
	}
	enqueued := make([]Enqueued, 0, len(rows))
	for at := 0; at < len(rows); at = len(enqueued) {
		part := rows[at : at+fitting(rows[at:])]
		ctx, call := t.telemetry.Start(ctx, telemetry.Enqueue, len(part))
		var inserted []Enqueued
		ids, headers, err := envelopes(ctx, part)
		if err == nil {
			inserted, err = write(ctx, at, ids, headers)
		}
		e := telemetry.Event{Err: err}
		if err == nil {
			e.Rows = &sentRows{labels: t.labels.written, rows: part, inserted: inserted}
			for _, row := range inserted {
				if !row.Duplicate {
					e.IDs = append(e.IDs, row.ID)
				}
			}
		}
		call.End(e)
		if err != nil {
			return nil, err
		}
		enqueued = append(enqueued, inserted...)
	}
	return enqueued, nil
}

// envelopes returns the ids and the stored headers of rows.
func envelopes(ctx context.Context, rows []NewRow) (ids []uuid.UUID, headers []*string, err error) {
	ids, headers = make([]uuid.UUID, len(rows)), make([]*string, len(rows))
	trace := telemetry.TraceHeaders(ctx)
	for i, row := range rows {
		if ids[i] = row.ID; ids[i] == uuid.Nil {
			if ids[i], err = uuid.NewV7(); err != nil {
				return nil, nil, err
			}
		}
		encoded, err := header.Encode(row.Headers, trace)
		if err != nil {
			return nil, nil, err
		}
		headers[i] = conn.OptionalText(encoded)
	}
	return ids, headers, nil
}

// insertMissing writes the rows of which neither was written nor found what has their ids or holds their unique values:
// it was deleted between the two, so both are free.
func (t *Table) insertMissing(ctx context.Context, tx Tx, rows []NewRow, enqueued []Enqueued,
	written []uuid.UUID) (_ []uuid.UUID, err error) {
	for i := range enqueued {
		if enqueued[i].ID != uuid.Nil {
			continue
		}
		if enqueued[i], err = t.insertOne(ctx, tx, rows[i:i+1]); err != nil {
			return written, err
		}
		if !enqueued[i].Duplicate {
			written = append(written, enqueued[i].ID)
		}
	}
	return written, nil
}

func (t *Table) insertOne(ctx context.Context, tx Tx, row []NewRow) (Enqueued, error) {
	enqueued := make([]Enqueued, 1)
	for range maxVanished {
		in, err := t.newInsertion(ctx, row)
		if err == nil {
			_, err = in.run(ctx, tx, enqueued)
		}
		if err != nil {
			return Enqueued{}, err
		}
		if enqueued[0].ID != uuid.Nil {
			return enqueued[0], nil
		}
	}
	if row[0].Once { // row-level security may hide the row with the id
		return Enqueued{ID: row[0].ID, Duplicate: true}, nil
	}
	return Enqueued{}, t.suppressed()
}

func (t *Table) suppressed() error {
	return fmt.Errorf("txwork: %s took a row and stored none: does a trigger, a rule or a policy of the table "+
		"suppress it?", t.Name())
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
