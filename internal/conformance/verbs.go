package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// verbs are the calls of operators' functions, with what they say of a row in each state: what it became, or, behind a
// colon, what it stays and why.
var verbs = map[string]map[string]string{
	"run_now($1)": {"ready": "ready: it is due already", "scheduled": "ready",
		"in_progress": "in_progress: it is in_progress",
		"done":        "done: it is done", "failed": "failed: it is failed", "cancelled": "cancelled: it is cancelled"},
	"reschedule($1, '2040-01-01 00:00:00+00')": {"ready": "scheduled", "scheduled": "scheduled",
		"in_progress": "in_progress: it is in_progress", "done": "done: it is done", "failed": "failed: it is failed",
		"cancelled": "cancelled: it is cancelled"},
	"redrive($1, 'alice')": {"ready": "ready: it is ready", "scheduled": "scheduled: it is scheduled",
		"in_progress": "in_progress: it is in_progress", "done": "done: it is done", "failed": "ready",
		"cancelled": "ready"},
	"cancel($1, 'why')": {"ready": "cancelled", "scheduled": "cancelled", "in_progress": "in_progress",
		"done": "done: it is done", "failed": "failed: it is failed", "cancelled": "cancelled: it is cancelled"},
	"discard($1, 'why')": {"ready": "ready: it is ready: cancel it",
		"scheduled":   "scheduled: it is scheduled: cancel it",
		"in_progress": "in_progress: it is in_progress: cancel it", "done": "done: it is done", "failed": "cancelled",
		"cancelled": "cancelled: it is cancelled"},
	"delete($1)": {"ready": "ready: it is ready: cancel it first",
		"scheduled":   "scheduled: it is scheduled: cancel it first",
		"in_progress": "in_progress: it is in_progress: cancel it first", "done": "deleted", "failed": "deleted",
		"cancelled": "deleted"},
}

// inStates makes a row in each state, behind one that is not there.
func (s *suite) inStates() (ids []uuid.UUID, states []string) {
	s.Helper()
	ids, states = []uuid.UUID{uuid.New()}, []string{"gone"}
	for state, assignments := range map[string]string{
		"ready": "attempts = 0", "scheduled": "due_at = '2039-01-01'",
		"in_progress": "status = 1, attempts = 1, owner_token = gen_random_uuid(), locked_until = now() + interval '1 day'",
		"done":        "status = 2, completed_at = now()", "failed": "status = 3, completed_at = now(), failed_at = now()",
		"cancelled": "status = 3, completed_at = now(), failed_at = now(), cancelled_at = now()",
	} {
		id := s.ready(1)[0]
		s.set(assignments, id)
		ids, states = append(ids, id), append(states, state)
	}
	return ids, states
}

// An answer is a row of a verb's result.
type answer struct {
	Place   int
	ID      uuid.UUID
	Changed bool
	Result  string
	Why     *string
}

func (a answer) String() string {
	if a.Why == nil {
		return a.Result
	}
	return a.Result + ": " + *a.Why
}

func (s *suite) ask(call string, ids []uuid.UUID) []answer {
	s.Helper()
	rows, err := s.eyes.Query(s.Context(), s.sql("SELECT place, id, changed, result, why FROM $T_"+call), ids)
	s.ok(err)
	answers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
	s.ok(err)
	return answers
}

// Every id is answered, in the order of the call, also one that is given twice or is not there. What stays as it is
// says why, and a call that is repeated changes nothing but says that it is done.
func verbsAnswer(s *suite) {
	for call, want := range verbs {
		ids, states := s.inStates()
		ids, states = append(ids, ids[1]), append(states, states[1])
		answers := s.ask(call, ids)
		equal(s, call+": answers", len(answers), len(ids))
		for i, a := range answers {
			said := want[states[i]]
			if states[i] == "gone" {
				said = "gone: there is no such row"
			}
			if a.Place != i+1 || a.ID != ids[i] || a.Changed != (a.Why == nil) || a.String() != said {
				s.Errorf("%s of a row that is %s: %v %v at place %d, want %q", call, states[i], a, a.Changed, a.Place, said)
			}
			if is := s.stateOf(ids[i]); is != a.Result && a.Result != "deleted" && a.Result != "gone" {
				s.Errorf("%s of a row that is %s says %s, and it is %s", call, states[i], a.Result, is)
			}
		}
		for _, a := range s.ask(call, ids) {
			if a.Changed {
				s.Errorf("%s again changes a row: %v", call, a)
			}
		}
		equal(s, call+" of nothing", len(s.ask(call, []uuid.UUID{})), 0)
	}
}

func (s *suite) stateOf(id uuid.UUID) string {
	return scan[string](s, `SELECT coalesce((SELECT CASE t.status WHEN 0 THEN CASE WHEN due_at > now() THEN 'scheduled' ELSE
		'ready' END WHEN 1 THEN 'in_progress' WHEN 2 THEN 'done' ELSE CASE WHEN cancelled_at IS NULL THEN 'failed' ELSE
		'cancelled' END END FROM $T AS t WHERE id = $1), 'gone')`, id)
}

// What is written of a row, beside its state.
func verbsEffect(s *suite) {
	ids, states := s.inStates()
	for i, state := range states {
		id := ids[i : i+1]
		switch state {
		case "scheduled":
			s.expect(id[0], effect{"due_at": now}, func() { s.ask("run_now($1)", id) })
		case "ready":
			s.expect(id[0], effect{"due_at": at(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))}, func() { s.ask("reschedule($1, '2040-01-01 00:00:00+00')", id) })
		case "failed":
			s.set("last_error = 'it broke'", id...)
			e := effect{"cancelled_at": now, "last_error": is("discarded: no use; it broke")}
			s.expect(id[0], e, func() { s.ask("discard($1, 'no use')", id) })
			s.expect(id[0], effect{"status": is(0), "due_at": now, "owner_token": null, "completed_at": null,
				"failed_at": null, "cancelled_at": null, "headers": containing("txwork-redriven-at:",
					"txwork-redriven-by:bob")}, func() { s.ask("redrive($1, 'bob')", id) })
			s.expect(id[0], failed.with(effect{"cancelled_at": now, "last_error": is("cancelled: no reason given")}),
				func() { s.ask("cancel($1, '')", id) })
		case "in_progress":
			s.ask("cancel($1, 'once')", id)
			s.unchanged(id, func() {
				equal(s, "cancelled again", fmt.Sprint(s.ask("cancel($1, 'twice')", id)),
					"[in_progress: its cancel was asked for before]")
			})
		}
	}
}

// What no call may have is refused before anything is written or locked, with the parameter and what to do.
func verbsRefuse(s *suite) {
	ids, _ := s.inStates()
	for call := range verbs {
		verb, _, _ := strings.Cut(call, "(")
		rest, _ := strings.CutPrefix(call, verb+"($1")
		for what, bad := range map[string]string{
			"NULL": "NULL", "a NULL": "$1::uuid[] || NULL::uuid",
			"too many": "array_fill(gen_random_uuid(), ARRAY[10001]) || $1::uuid[]",
		} {
			s.refusesVerb(ids, verb+"("+bad+rest, what, "ids")
		}
	}
	for call, column := range map[string]string{"cancel($1, NULL)": "reason", "discard($1, NULL)": "reason",
		"reschedule($1, NULL)": "at", "reschedule($1, 'infinity')": "at", "reschedule($1, '20000-01-01')": "at"} {
		s.refusesVerb(ids, call, "a bad argument", column)
	}
}

func (s *suite) refusesVerb(ids []uuid.UUID, call, what, column string) {
	s.Helper()
	s.unchanged(ids[1:], func() {
		var locked bool
		s.ok(pgx.BeginFunc(s.Context(), s.eyes, func(tx pgx.Tx) error {
			err := pgx.BeginFunc(s.Context(), tx, func(part pgx.Tx) error {
				_, err := part.Exec(s.Context(), s.sql("SELECT $T_"+call+", $1::uuid[]"), ids)
				return err
			})
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "22023" || e.ColumnName != column || e.Hint == "" {
				s.Errorf("%s with %s: %v", call, what, err)
			}
			return tx.QueryRow(s.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&locked)
		}))
		if locked {
			s.Errorf("%s with %s was refused after it had locked rows", call, what)
		}
	})
}
