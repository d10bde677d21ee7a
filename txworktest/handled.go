package txworktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// An Outcome is what became of a row.
type Outcome string

const (
	// Done: handled, or acknowledged in another way.
	Done Outcome = "done"
	// Retried: a failed attempt; the row is due again later.
	Retried Outcome = "retried"
	// Snoozed: put back without a failure; the attempt does not count.
	Snoozed Outcome = "snoozed"
	// Failed: a dead letter.
	Failed Outcome = "failed"
	// Cancelled: ended as cancelled.
	Cancelled Outcome = "cancelled"
	// LeaseLost: the lease expired before the result was stored. The row was requeued, and the handler's result, if one
	// ran, is lost.
	LeaseLost Outcome = "lease lost"
	// Unsettled: the connection was lost before the result was stored. The row is claimed until its lease expires.
	Unsettled Outcome = "unsettled"
)

// Handled is what became of one row in one run of its handler, or when its lease was found expired.
type Handled struct {
	Table   string // qualified
	ID      uuid.UUID
	Outcome Outcome
	Attempt int           // how many attempts the row has used so far
	Error   string        // as it was stored; empty for Done and Snoozed
	Again   time.Duration // time until it is due again; 0 if it has ended
	Ran     bool          // false: no handler ran, an expired lease was requeued
}

// String describes what became of the row, for a test's log.
func (h Handled) String() string {
	_, table, _ := strings.Cut(h.Table, ".") // without the schema, which says nothing in a test's log
	text := fmt.Sprintf("%s %s %s in attempt %d", table, h.ID, h.Outcome, h.Attempt)
	if h.Again > 0 {
		text += fmt.Sprintf(", due again in %v", h.Again.Round(time.Millisecond))
	}
	if h.Error != "" {
		text += ": " + short(h.Error)
	}
	return text
}

// state is the part of a row from which compare finds out whether and how it was handled.
type state struct {
	ID        uuid.UUID        `json:"id"`
	Status    workqueue.Status `json:"status"`
	Attempts  int              `json:"attempts"`
	Token     *uuid.UUID       `json:"token"`
	Error     string           `json:"error"`
	Cancelled bool             `json:"cancelled"`
	Again     float64          `json:"again"` // seconds
}

func (s state) String() string {
	return fmt.Sprintf("%s %v, attempt %d, due in %v %s", s.ID, s.Status, s.Attempts,
		postgres.Seconds(s.Again).Round(time.Millisecond), short(s.Error))
}

// statesOf reads the rows of a worker's table. It retries, because the pool may hold connections that a fault has
// terminated.
func statesOf(t testing.TB, q Querier, table string) map[uuid.UUID]state {
	t.Helper()
	schema, name, _ := strings.Cut(table, ".")
	text := fmt.Sprintf(`SELECT json_build_object('id', r.id, 'status', r.status, 'attempts', r.attempts, 'token', r.owner_token,
			'error', r.last_error, 'cancelled', r.cancelled_at IS NOT NULL,
			'again', extract(epoch FROM coalesce(r.locked_until, r.due_at) - clock_timestamp()))::text
		FROM %q.%q AS r`, schema, name)
	texts := persistently(t, func() ([]string, error) { return tryQuery(t.Context(), q, text) })
	states := make(map[uuid.UUID]state, len(texts))
	for _, one := range texts {
		var s state
		if err := json.Unmarshal([]byte(one), &s); err != nil {
			t.Fatalf("txworktest: %v", err)
		}
		states[s.ID] = s
	}
	return states
}

// compare finds what a run did to the rows, from their states before and after it. A row that the run claimed has
// another owner token or another number of attempts.
func compare(table string, before, after map[uuid.UUID]state, lost map[uuid.UUID]bool) []Handled {
	var handled []Handled
	for id, b := range before {
		a, there := after[id]
		switch {
		case !there && b.Status < workqueue.Done:
			handled = append(handled, Handled{ID: id, Outcome: Done, Attempt: b.Attempts + 1, Ran: true})
		case !there:
		case lost[id]:
			handled = append(handled, a.handled(LeaseLost, true))
		case a.Attempts != b.Attempts || a.Token != nil && (b.Token == nil || *a.Token != *b.Token):
			handled = append(handled, a.handled(a.outcome(b), true))
		case b.Status == workqueue.InProgress && a.Status != workqueue.InProgress:
			handled = append(handled, a.handled(a.taken(), false))
		}
	}
	for i := range handled {
		handled[i].Table = table
	}
	return handled
}

// outcome returns the outcome of a row that was claimed.
func (s state) outcome(before state) Outcome {
	switch {
	case s.Status == workqueue.Done:
		return Done
	case s.Status == workqueue.Failed && s.Cancelled:
		return Cancelled
	case s.Status == workqueue.Failed:
		return Failed
	case s.Status == workqueue.InProgress:
		return Unsettled
	case s.Attempts > before.Attempts:
		return Retried
	}
	return Snoozed
}

// taken returns the outcome of a row whose lease was found expired.
func (s state) taken() Outcome {
	if s.Status == workqueue.Failed {
		return Failed
	}
	return LeaseLost
}

func (s state) handled(o Outcome, ran bool) Handled {
	h := Handled{ID: s.ID, Outcome: o, Attempt: s.Attempts, Ran: ran}
	if o != Done && o != Snoozed {
		h.Error = s.Error
	}
	if s.Status < workqueue.Done {
		h.Again = max(postgres.Seconds(s.Again), 0)
	}
	return h
}
