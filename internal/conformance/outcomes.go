package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// outcome is an element of what the function settle takes.
type outcome map[string]any

// settleOutcomes calls settle with elements, of which those without an id and a token get those of the claim's rows.
func (s *suite) settleOutcomes(c claim, strict bool, elements ...outcome) (words []string, err error) {
	s.Helper()
	for i, e := range elements {
		all := outcome{"id": c.ids[i%len(c.ids)], "token": c.token}
		maps.Copy(all, e)
		elements[i] = all
	}
	encoded, err := json.Marshal(elements)
	s.ok(err)
	err = s.eyes.QueryRow(s.Context(), s.sql("SELECT array_agg(result ORDER BY place) FROM $T_settle($1::jsonb, $2)"),
		string(encoded), strict).Scan(&words)
	return words, err
}

// Each row gets its own outcome in one call, and is what the outcome makes of it.
func functionSettlesEach(s *suite) {
	s.forgetTopics()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	acked := "done"
	for _, o := range []struct {
		element outcome
		word    string
		again   string // of the same call once more
		effect  effect
	}{
		{outcome{"outcome": "ack"}, acked, "repeated", s.ackSettle().effect},
		{outcome{"outcome": "retry", "delay": 60, "error": cause}, "ready", "repeated",
			abandonSettle(time.Minute).effect},
		{outcome{"outcome": "retry", "error": cause}, "ready", "repeated", s.retrySettle().effect},
		{outcome{"outcome": "fail", "error": cause}, "failed", "repeated", failSettle().effect},
		{outcome{"outcome": "cancel", "error": cause}, "cancelled", "repeated",
			failed.with(effect{"cancelled_at": now, "last_error": is("cancelled: " + cause)})},
		{outcome{"outcome": "snooze", "delay": 60.0}, "ready", "repeated", snoozeSettle().effect},
		{outcome{"outcome": "snooze", "delay": 60, "error": cause}, "ready", "repeated",
			snoozeSettle().effect.with(effect{"last_error": containing(cause + " since ")})},
		{outcome{"outcome": "leave", "delay": 60}, "ready", "repeated", snoozeSettle().effect},
		{outcome{"outcome": "wait_until", "at": at}, "ready", "repeated",
			snoozeSettle().effect.with(effect{"due_at": between(time.Hour-patience, time.Hour)})},
		{outcome{"outcome": "release"}, "ready", "repeated", releaseSettle().effect},
		{outcome{"outcome": "unavailable", "error": cause}, "ready", "repeated", s.unavailableSettle().effect}, // last
	} {
		c := s.claimed(2)
		id, other := c.ids[:1], c.ids[1:]
		s.unchanged(other, func() {
			s.expect(id[0], o.effect, func() {
				words, err := s.settleOutcomes(claim{c.token, id}, true, maps.Clone(o.element))
				s.ok(err)
				equal(s, fmt.Sprint(o.element), fmt.Sprint(words), fmt.Sprint([]string{o.word}))
			})
		})
		if o.word == acked && s.Spec.DeleteDone {
			o.again = "gone"
		}
		if until, ok := o.element["at"]; ok {
			equal(s, "due at that time", scan[bool](s, "SELECT due_at = $2 FROM $T WHERE id = $1", id[0], until), true)
		}
		words, err := s.settleOutcomes(claim{c.token, id}, false, maps.Clone(o.element))
		s.ok(err)
		equal(s, fmt.Sprint(o.element, " again"), fmt.Sprint(words), fmt.Sprint([]string{o.again}))
	}
}

// One call has many outcomes, and says in the order of its elements what each row became.
func functionSettlesMany(s *suite) {
	c := s.claimed(8)
	s.set("owner_token = gen_random_uuid()", c.ids[4])
	s.exec("DELETE FROM $T WHERE id = $1", c.ids[5])
	s.set("attempts = max_attempts", c.ids[6])
	s.wantCancelled(c.ids[7])
	elements := []outcome{{"outcome": "release"}, {"outcome": "ack"}, {"outcome": "fail", "error": "x"},
		{"outcome": "cancel", "error": "x"}, {"outcome": "ack"}, {"outcome": "release"}, {"outcome": "retry"},
		{"outcome": "snooze", "delay": 1}}
	want := []string{"ready", "done", "failed", "cancelled", "lost", "gone", "failed", "cancelled"}

	before := s.contents()
	_, err := s.settleOutcomes(c, true, elements...)
	equal(s, fmt.Sprintf("SQLSTATE of %v", err), sqlState(err), "TXL01")
	equal(s, "table", s.contents(), before)

	words, err := s.settleOutcomes(c, false, elements...)
	s.ok(err)
	equal(s, "what became of the rows", fmt.Sprint(words), fmt.Sprint(want))
}

// Each element is checked before anything is written.
func functionRefusesOutcomes(s *suite) {
	c := s.claimed(2)
	before := s.contents()
	for _, bad := range []any{
		nil, "x", outcome{}, outcome{"outcome": "ack"}, outcome{"id": c.ids[1], "token": c.token},
		outcome{"id": c.ids[1], "outcome": "ack"},
		outcome{"id": nil, "token": c.token, "outcome": "ack"},
		outcome{"id": "x", "token": c.token, "outcome": "ack"},
		outcome{"id": c.ids[1], "token": 1, "outcome": "ack"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "done"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": nil},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "ack", "extra": 1},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "ack", "delay": 1},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "retry", "delay": -1},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "retry", "delay": "1"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "retry", "delay": 1e300},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "retry", "error": 1},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "fail"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "snooze"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "wait_until", "at": "soon"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "wait_until", "at": "infinity"},
		outcome{"id": c.ids[1], "token": c.token, "outcome": "wait_until", "at": 1},
		outcome{"id": c.ids[0], "token": c.token, "outcome": "ack"}, // named twice
	} {
		encoded, err := json.Marshal([]any{outcome{"id": c.ids[0], "token": c.token, "outcome": "ack"}, bad})
		s.ok(err)
		_, err = s.eyes.Exec(s.Context(), s.sql("SELECT $T_settle($1::jsonb)"), string(encoded))
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != "outcomes" || pg.Hint == "" ||
			!strings.HasPrefix(pg.Message, "outcomes ") {
			s.Errorf("%s: %v", encoded, err)
		}
	}
	equal(s, "table", s.contents(), before)
}

// In the transaction of its effects, a claim that does not hold its row is an error.
func functionCompletes(s *suite) {
	c := s.claimed(2)
	s.expect(c.ids[0], s.ackSettle().effect, func() {
		s.exec("SELECT $T_complete($1, $2)", c.token, c.ids[0])
	})
	s.unchanged(c.ids[1:], func() {
		for call, column := range map[string]string{"complete($1, ($2::uuid[])[1])": "id", "ack($1, $2, true)": "ids",
			"retry($1, $2, strict => true)": "ids"} {
			_, err := s.eyes.Exec(s.Context(), s.sql("SELECT $T_"+call), uuid.New(), c.ids[1:])
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "TXL01" || e.ColumnName != column ||
				!strings.HasPrefix(e.Message, column+" ") || e.Hint == "" {
				s.Errorf("%s of a row that is lost: %v", call, err)
			}
		}
	})
}

// An extend tells which rows to stop, and until when the others are held.
func functionTellsOfLeases(s *suite) {
	c := s.claimed(5)
	s.wantCancelled(c.ids[1])
	s.set("owner_token = gen_random_uuid()", c.ids[3])
	s.exec("DELETE FROM $T WHERE id = $1", c.ids[4])
	s.locked(c.ids[2:3], func() {
		got := scan[string](s, `SELECT string_agg(concat(result, ' ', locked_until > now() + interval '9 minutes'), ', '
			ORDER BY place) FROM $T_extend($1, $2, '10 min')`, c.token, c.ids)
		equal(s, "what became of the leases", got, "extended t, cancelled t, busy , lost , gone ")
	})
	equal(s, "bound", scan[bool](s, "SELECT min(locked_until) = $3 FROM $T WHERE id = ANY ($2) AND owner_token = $1",
		c.token, c.ids[:2], scan[time.Time](s, "SELECT min(locked_until) FROM $T WHERE id = ANY ($1)", c.ids[:2])), true)
}

// A caller that stays in the transaction of a settle loses its session within a minute. A shorter bound stays.
func functionBoundsIdleTime(s *suite) {
	for own, want := range map[string]string{"0": "1min", "5s": "5s", "1h": "1min"} {
		tx := s.open()
		f := tx.ops.(functionOps)
		c := s.claimed(1)
		_, err := f.tx.Exec(s.Context(), "SET LOCAL idle_in_transaction_session_timeout = '"+own+"'")
		s.ok(err)
		_, err = f.ack(s.Context(), c.token, c.ids)
		s.ok(err)
		var got string
		s.ok(f.tx.QueryRow(s.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got))
		equal(s, "bound beside "+own, got, want)
		s.ok(tx.rollback())
	}
}

// A settle refuses sessions in which it would fail at random, or leave no notes.
func functionsWantReadCommitted(s *suite) {
	c := s.claimed(1)
	s.unchanged(c.ids, func() {
		for _, set := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
			"SET LOCAL session_replication_role = replica"} {
			err := s.try(func(ctx context.Context, o ops) error {
				f := o.(functionOps)
				if _, err := f.tx.Exec(ctx, set); err != nil {
					return err
				}
				_, err := f.ack(ctx, c.token, c.ids)
				return err
			})
			equal(s, fmt.Sprintf("SQLSTATE of %v", err), sqlState(err), "55000")
		}
	})
}
