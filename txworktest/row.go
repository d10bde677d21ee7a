package txworktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A Row is a message, job or timer as it is stored. Times are the database's.
type Row struct {
	ID          uuid.UUID
	Status      workqueue.Status
	Waiting     bool // held back behind its key, or for a join
	DueAt       time.Time
	Attempts    int
	MaxAttempts int
	LastError   string // empty for none
	Headers     map[string]string
	CreatedAt   time.Time
	CompletedAt *time.Time
	CancelledAt *time.Time

	// Values are the domain's columns by name: string for text, int64 for integers, float64, bool, []byte, time.Time, a
	// uuid.UUID, [json.RawMessage] for jsonb, and nil for NULL. Numeric is a string.
	Values map[string]any

	own bool // inserted by the transaction that reads it
}

// Text returns a column of type text, and "" for NULL.
func (r Row) Text(column string) string {
	s, _ := r.Values[column].(string)
	return s
}

// Payload returns the column payload, or args of a job, as bytes.
func (r Row) Payload() []byte {
	for _, name := range payloadColumns {
		if b, ok := r.Values[name].([]byte); ok {
			return b
		}
	}
	return nil
}

var payloadColumns = []string{"payload", "args"}

// JSON decodes the row's payload, which has to be JSON.
func (r Row) JSON(into any) error { return json.Unmarshal(r.Payload(), into) }

// read is a row as the statement of selectRows returns it.
type read struct {
	ID          uuid.UUID                  `json:"id"`
	Status      int16                      `json:"status"`
	Waiting     bool                       `json:"waiting"`
	DueAt       time.Time                  `json:"due_at"`
	Attempts    int                        `json:"attempts"`
	MaxAttempts int                        `json:"max_attempts"`
	LastError   string                     `json:"last_error"`
	Headers     map[string]any             `json:"headers"`
	CreatedAt   time.Time                  `json:"created_at"`
	CompletedAt *time.Time                 `json:"completed_at"`
	CancelledAt *time.Time                 `json:"cancelled_at"`
	Own         bool                       `json:"own"`
	Values      map[string]json.RawMessage `json:"values"`
}

// rowsOf reads all rows of a table in the order in which they were written.
func rowsOf(t testing.TB, q Querier, table *workqueue.Table) []Row {
	t.Helper()
	spec := table.Spec()
	refuseForgotten(t, q, spec.Schema, spec.Table)
	texts := query(t, q, selectRows(spec))
	rows := make([]Row, len(texts))
	for i, text := range texts {
		var err error
		if rows[i], err = parseRow(text, table.Spec()); err != nil {
			t.Fatalf("txworktest: %s: %v", table.Name(), err)
		}
	}
	return rows
}

// selectRows returns a statement that reads each row as a JSON object. It encodes bytes in hexadecimal, because
// PostgreSQL's own encoding depends on a setting.
func selectRows(spec workqueue.Spec) string {
	values := make([]string, len(spec.Columns))
	for i, c := range spec.Columns {
		format := "'%[1]s', t.%[1]q"
		switch c.Type {
		case "bytea":
			format = "'%[1]s', encode(t.%[1]q, 'hex')"
		case "numeric", "date":
			format = "'%[1]s', t.%[1]q::text"
		}
		values[i] = fmt.Sprintf(format, c.Name)
	}
	return fmt.Sprintf(`SELECT json_build_object('id', t.id, 'status', t.status, 'waiting', t.waiting, 'due_at', t.due_at,
			'attempts', t.attempts, 'max_attempts', t.max_attempts, 'last_error', t.last_error, 'headers', t.headers,
			'created_at', t.created_at, 'completed_at', t.completed_at, 'cancelled_at', t.cancelled_at,
			'own', t.created_at = now(), 'values', json_build_object(%s))::text
		FROM %s AS t ORDER BY t.created_at, t.id`, strings.Join(values, ", "), quoted(spec))
}

// quoted returns a table's name. Nothing has to be escaped in it, because the Spec was validated.
func quoted(spec workqueue.Spec) string { return fmt.Sprintf("%q.%q", spec.Schema, spec.Table) }

func parseRow(text string, spec workqueue.Spec) (Row, error) {
	var r read
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Row{}, err
	}
	row := Row{
		ID: r.ID, Status: workqueue.Status(r.Status), Waiting: r.Waiting, DueAt: r.DueAt, Attempts: r.Attempts,
		MaxAttempts: r.MaxAttempts, LastError: r.LastError, Headers: headers(r.Headers), CreatedAt: r.CreatedAt,
		CompletedAt: r.CompletedAt, CancelledAt: r.CancelledAt, Values: map[string]any{}, own: r.Own,
	}
	for _, c := range spec.Columns {
		v, err := parseValue(c.Type, r.Values[c.Name])
		if err != nil {
			return Row{}, fmt.Errorf("column %s: %w", c.Name, err)
		}
		row.Values[c.Name] = v
	}
	return row, nil
}

func headers(raw map[string]any) map[string]string {
	if raw == nil {
		return nil
	}
	h := make(map[string]string, len(raw))
	for k, v := range raw {
		h[k] = fmt.Sprint(v)
	}
	return h
}

// tellingColumns returns the columns that a failed assertion shows: those of type text, without the payload.
func tellingColumns(spec workqueue.Spec) []string {
	var names []string
	for _, c := range spec.Columns {
		if c.Type == "text" && !slices.Contains(payloadColumns, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
