package operate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// A Row is one row of a domain table, as list and show read it.
type Row struct {
	ID           uuid.UUID  `db:"id" json:"id"`
	Status       RowStatus  `db:"status" json:"status"`     // ready, in_progress, done or failed
	Attempts     int        `db:"attempts" json:"attempts"` // attempts begun so far
	MaxAttempts  int        `db:"max_attempts" json:"max_attempts"`
	Waiting      bool       `db:"waiting" json:"waiting"`                           // ready, but held back
	DueAt        time.Time  `db:"due_at" json:"due_at"`                             // when it may be claimed, or became due if it was claimed
	CreatedAt    time.Time  `db:"created_at" json:"created_at"`                     // when it was written
	LockedUntil  *time.Time `db:"locked_until" json:"locked_until,omitempty"`       // when the lease ends
	RunningFrom  *time.Time `db:"running_from" json:"running_since,omitempty"`      // in progress: when it was claimed; missing until its lease has been renewed
	RunsWithin   *float64   `db:"runs_within" json:"runs_within_seconds,omitempty"` // in progress: how long it may run; missing if nobody said
	LostAlone    int64      `db:"lost_alone" json:"lost_alone,omitempty"`           // leases that it lost while it was alone; from 2 on it may end its process
	LostTogether int64      `db:"lost_together" json:"lost_together,omitempty"`     // leases that it lost together with other rows of its process
	CompletedAt  *time.Time `db:"completed_at" json:"completed_at,omitempty"`       // when it ended
	FailedAt     *time.Time `db:"failed_at" json:"failed_at,omitempty"`             // when it became a dead letter or was cancelled
	CancelledAt  *time.Time `db:"cancelled_at" json:"cancelled_at,omitempty"`       // when its cancel was requested
	LastError    *string    `db:"last_error" json:"last_error,omitempty"`           // error of its last failed attempt
	Columns      Document   `db:"columns" json:"columns"`                           // columns of the domain by name, without payloads
}

// coreFields selects the core's columns that Row has.
var coreFields = `r.id, r.status, r.attempts, r.max_attempts, r.waiting, r.due_at, r.created_at, r.locked_until,
	r.completed_at, r.failed_at, r.cancelled_at, ` + bounded("r.last_error", maxText) + " AS last_error, " +
	runningFields

const (
	maxText    = 8 << 10  // bytes of a text that are read, as many as the library stores of one
	maxHeaders = 64 << 10 // bytes of headers that are read
)

// bounded selects a text that somebody may have written past the library, however long it is. Its end says what is
// missing.
func bounded(text string, most int) string {
	return fmt.Sprintf("CASE WHEN octet_length(%[1]s) > %[2]d "+
		"THEN left(%[1]s, %[2]d) || '... (' || octet_length(%[1]s) || ' bytes)' ELSE %[1]s END", text, most)
}

// runningFields selects what renewals and the reaper have recorded.
var runningFields = fmt.Sprintf("%s AS running_from, CASE WHEN r.status = 1 THEN %s END AS runs_within, "+
	"%s AS lost_alone, %s AS lost_together", sqltext.RunningSince("r"), sqltext.RunningWithin("r", "NULL"),
	sqltext.LostLeases("r", "alone"), sqltext.LostLeases("r", "together"))

// A Value is that of a column of the domain.
type Value struct {
	Text   string // JSON unless Quoted
	Null   bool
	Quoted bool // it is a text, or what JSON writes as one
}

// Values returns the values of columns of the domain.
func (r *Row) Values(columns []Column) []Value {
	var raw map[string]json.RawMessage
	json.Unmarshal([]byte(r.Columns), &raw) // cannot fail: the server made the document
	values := make([]Value, len(columns))
	for i, c := range columns {
		v := &values[i]
		v.Text = string(raw[c.Name])
		v.Null = v.Text == "" || v.Text == "null"
		v.Quoted = json.Unmarshal(raw[c.Name], &v.Text) == nil
	}
	return values
}

// RowStatus is a status that JSON shows by name.
type RowStatus workqueue.Status

func (s RowStatus) String() string               { return workqueue.Status(s).String() }
func (s RowStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Document is JSON as the server wrote it.
type Document string

// MarshalJSON implements [json.Marshaler].
func (d Document) MarshalJSON() ([]byte, error) { return []byte(d), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Document) UnmarshalJSON(text []byte) error {
	*d = Document(text)
	return nil
}

// UnmarshalText reads what MarshalText writes.
func (s *RowStatus) UnmarshalText(text []byte) error {
	status, err := workqueue.ParseStatus(string(text))
	*s = RowStatus(status)
	return err
}

// utc makes all times UTC, whatever the session's time zone.
func (r *Row) utc() {
	r.DueAt, r.CreatedAt = r.DueAt.UTC(), r.CreatedAt.UTC()
	for _, t := range []**time.Time{&r.LockedUntil, &r.RunningFrom, &r.CompletedAt, &r.FailedAt, &r.CancelledAt} {
		*t = UTC(*t)
	}
}

// UTC returns a time that may be missing in UTC.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
