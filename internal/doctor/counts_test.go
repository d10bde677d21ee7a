package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// counts checks that the only findings with a code are five, the first of which says how many there are.
func (w *ward) counts(code, title string, found any, change ...func(*doctor.Options)) {
	w.Helper()
	all := w.all(code, change...)
	if len(all) != 5 || !strings.Contains(all[0].Title, title) || all[0].Evidence[0].Get("found") != found ||
		strings.Contains(all[1].Title, "shown") {
		w.Errorf("%d findings, want 5 with %q: %+v", len(all), title, all)
	}
}

// Of many findings alike a few are shown, and the first says how many there are.
func TestManySchedulesAndTopics(t *testing.T) {
	w := newWard(t)
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	w.in(func(tx workqueue.Tx) error {
		var all []timers.Schedule
		for i := range 12 {
			all = append(all, timers.Schedule{Name: fmt.Sprint("s", i), Expr: "@hourly", Topic: "report"})
		}
		return clock.Schedules().Put(t.Context(), tx, all...)
	})
	w.exec("UPDATE timers_schedule SET next_at = now() - interval '1 hour', due_at = now() - interval '1 hour'")
	found := w.all("schedule-overdue")
	if len(found) != 1 || !strings.HasPrefix(found[0].Title, "timers_schedule: 12 overdue schedules, of which 5 are shown; ") ||
		len(found[0].Evidence) != 5 || found[0].Evidence[0].Get("found") != int64(12) {
		t.Errorf("findings %+v", found)
	}
	w.exec("UPDATE timers_schedule SET attempts = 3, last_error = 'no such zone'")
	w.counts("schedule-failing", "timers_schedule: 12 failing schedules, of which 5 are shown; ", int64(12))

	w.exec("INSERT INTO outbox (topic, payload, due_at, waiting, aside) SELECT 't' || i, '{}', now() - interval '1 hour', " +
		"true, true FROM generate_series(1, 14) AS g (i)")
	w.counts("topic-behind", "outbox: 14 lagging topics, of which 5 are shown; ", int64(14))
	w.exec("SELECT outbox_pause('t' || i) FROM generate_series(1, 6) AS g (i)")
	w.counts("topic-paused", "outbox: 6 paused topics, of which 5 are shown; ", int64(6))
	w.counts("topic-behind", "outbox: 8 lagging topics, of which 5 are shown; ", int64(8))
}

// A topic that lies behind more topics than are looked at is no finding, but it is said that there may be some.
func TestMoreTopicsThanAreLookedAt(t *testing.T) {
	w := newWard(t)
	w.exec("INSERT INTO outbox (topic, payload, due_at, waiting, aside) SELECT 't' || i, '{}', now(), true, true FROM " +
		"generate_series(10001, 20000) AS g (i)")
	w.exec("INSERT INTO outbox (topic, payload, due_at, waiting, aside) VALUES ('z', '{}', now() - interval '1 hour', " +
		"true, true)")
	r := w.unseen("topic-behind", "outbox", "10000 or more topics")
	for _, f := range r.Findings {
		if f.Code == "topic-behind" {
			t.Errorf("found %+v", f)
		}
	}
}

// unseen examines and checks that a check is named as one that was not made in full.
func (w *ward) unseen(code, table, reason string, change ...func(*doctor.Options)) doctor.Report {
	w.Helper()
	o := w.options()
	for _, c := range change {
		c(&o)
	}
	r, err := doctor.Examine(w.Context(), w.Pool, o)
	must(w, err)
	if r.Complete() || !slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
		return s.Check == code && s.Table == table && strings.Contains(s.Reason, reason)
	}) {
		w.Errorf("%s of %s is not named with %q: %+v", code, table, reason, r.Skipped)
	}
	return r
}

// titles returns the titles of the findings with a code.
func titles(r doctor.Report, code string) (all []string) {
	for _, f := range r.Findings {
		if f.Code == code {
			all = append(all, f.Title)
		}
	}
	return all
}

// Schedules behind those that are looked at are not taken for punctual.
func TestMoreSchedulesThanAreLookedAt(t *testing.T) {
	w := newWard(t)
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	w.in(func(tx workqueue.Tx) error {
		return clock.Schedules().Put(t.Context(), tx, timers.Schedule{Name: "s", Expr: "@hourly", Topic: "report"})
	})
	columns := ask[string](w, "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = "+
		"'timers_schedule'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('id', 'name', 'due_at')")
	w.exec("INSERT INTO timers_schedule (name, due_at, " + columns + ") SELECT 's' || i, now(), " + columns +
		" FROM timers_schedule, generate_series(1, 10000) AS g (i)")
	// Its due time was put off by each failure.
	w.exec("UPDATE timers_schedule SET next_at = now() - interval '1 hour', due_at = now() + interval '1 minute', " +
		"attempts = 3 WHERE name = 's'")
	w.unseen("schedule-failing", "timers_schedule", "more schedules are due than are looked at")
}

// All sequences are looked at, as far as they are not too many.
func TestManySequences(t *testing.T) {
	w := newWard(t)
	numbered := func(n int) {
		w.exec(fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			EXECUTE format('CREATE TABLE IF NOT EXISTS %%I (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY)', 'z' || i);
			END LOOP; END $$`, n))
	}
	numbered(30)
	w.exec("INSERT INTO z9 VALUES (7)")
	w.finds("sequence-behind", []string{"z9"})
	numbered(200)
	w.unseen("sequence-behind", "", "200 or more sequences")
}

// Joins, and members of joins, behind those that are looked at are not taken for sound.
func TestMoreJoinsThanAreLookedAt(t *testing.T) {
	w := newWard(t)
	join := func(id int, looked string) string {
		return fmt.Sprintf("INSERT INTO outbox_join (id, expected, created_at, look_at, retention) SELECT lpad(i::text, 32, "+
			"'0')::uuid, 1000, now() - interval '1 hour', now() + interval '%s', '1 day' FROM generate_series(%d, %d) AS g (i)",
			looked, id, id)
	}
	w.exec(join(1, "1 second"))
	w.exec("INSERT INTO outbox (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 300)")
	w.exec("INSERT INTO outbox_join_member (member_id, join_id) SELECT id, lpad('1', 32, '0')::uuid FROM outbox")
	w.goneNow("stuck-join", nil)
	w.exec("INSERT INTO outbox_join_member (member_id, join_id) VALUES (gen_random_uuid(), lpad('1', 32, '0')::uuid)")
	w.finds("stuck-join", []string{"a member is gone and was not counted"})

	w.exec("INSERT INTO outbox_join (id, expected, created_at, look_at, retention) SELECT lpad(i::text, 32, '0')::uuid, " +
		"1000, now() - interval '1 hour', now() + interval '1 minute', '1 day' FROM generate_series(2, 999) AS g (i)")
	r := w.unseen("stuck-join", "outbox", "1 join with more open members than are looked at")
	if found := titles(r, "stuck-join"); len(found) > 0 {
		t.Errorf("%q", found)
	}
	w.exec(join(1000, "2 minutes"))
	w.exec("UPDATE outbox_join SET deadline = now() - interval '30 minutes' WHERE id = lpad('5', 32, '0')::uuid")
	r = w.unseen("stuck-join", "outbox", "1000 or more joins that have been pending for 10 min")
	if found := titles(r, "stuck-join"); len(found) != 1 ||
		!strings.Contains(found[0], "at least 1 stuck join, of which 1") {
		t.Errorf("%q", found)
	}
}

// Lists of what the catalog and the server have say that they may go on.
func TestMoreSettingsThanAreListed(t *testing.T) {
	w := newWard(t)
	w.exec("DO $$ BEGIN FOR i IN 1..25 LOOP EXECUTE format('CREATE INDEX outbox_odd%s ON outbox (topic)', i); END LOOP; " +
		"END $$")
	w.exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text LIKE '%outbox_odd%'")
	w.unseen("invalid-index", "", "20 or more invalid indexes")
	w.exec("DO $$ BEGIN FOR i IN 1..1001 LOOP EXECUTE format('CREATE FUNCTION outbox_odd%s() RETURNS int RETURN 1', i); " +
		"END LOOP; END $$")
	o := w.options()
	o.Ignore = []string{"invalid-index"}
	r, err := doctor.Examine(t.Context(), w.Pool, o)
	must(t, err)
	if found := titles(r, "public-rights"); len(found) != 1 || !strings.HasPrefix(found[0],
		"PUBLIC has at least 1000 privileges") {
		t.Errorf("%q", found)
	}
}

// The rows of a table without the comment by which the core's tables are recognized are not taken for sound.
func TestATableWithoutItsComment(t *testing.T) {
	w := newWard(t)
	up, _, err := workqueue.Spec{Schema: w.Schema, Table: "letters"}.DDL()
	must(t, err)
	w.exec(up)
	w.exec("INSERT INTO letters (due_at) VALUES (now() - interval '1 hour')")
	w.finds("unserved", []string{"letters"})
	mark := ask[string](w, "SELECT obj_description('letters'::regclass)")
	w.exec("COMMENT ON TABLE letters IS NULL")
	for _, check := range []string{"unserved", "expired-leases", "poison"} {
		w.unseen(check, "letters", "not its comment")
	}
	r := w.unseen("unserved", "letters", "rows were not looked at")
	i := slices.IndexFunc(r.Skipped, func(s doctor.Skipped) bool { return s.Table == "letters" })
	statement, _, _ := strings.Cut(r.Skipped[i].Remedy, ", if")
	w.exec(statement)
	if again := ask[string](w, "SELECT obj_description('letters'::regclass)"); again != mark {
		t.Errorf("the remedy writes %q, want %q", again, mark)
	}
	w.finds("unserved", []string{"letters"})
}

// Rows with errors behind those that are looked at are not taken for sound.
func TestMoreRowsThanAreLookedAtForErrors(t *testing.T) {
	w := newWard(t)
	const unhandled = `no handler is registered for topic "order.placed"`
	w.enqueue(messages("order.placed", 1)...)
	w.exec("UPDATE outbox SET attempts = 1, last_error = $1, due_at = now() + interval '10 minutes', headers = headers || "+
		"jsonb_build_object('txwork-lost-alone', 2, 'txwork-lost-at', '2026-01-01T00:00:00Z')", unhandled)
	fill := func(n int, due string) {
		w.exec("INSERT INTO outbox (topic, payload, due_at) SELECT 'a', '{}', now() + $1::interval FROM "+
			"generate_series(1, $2::int) AS g (i)", due, n)
	}
	fill(11000, "2 hours") // which no attempt of the row waits for
	w.finds("unknown-handler", []string{unhandled})
	fill(11000, "-1 second")
	for _, check := range []string{"unknown-handler", "ends-process"} {
		w.unseen(check, "outbox", "more than 10000 rows are due: ")
	}
	w.exec("DELETE FROM outbox WHERE topic = 'a'")
	w.exec("SET session_replication_role = replica; INSERT INTO outbox (topic, payload, status, attempts, completed_at, " +
		"failed_at, last_error) SELECT 'b', '{}', 3, 1, now(), now(), 'declined' FROM generate_series(1, 1100); " +
		"RESET session_replication_role")
	for _, check := range []string{"unknown-handler", "ends-process", "poison"} {
		w.unseen(check, "outbox", "more than 1000 rows have failed within 60 min")
	}
	r := w.unseen("poison", "outbox", "failed")
	if found := titles(r, "poison"); len(found) != 1 || !strings.Contains(found[0], "at least 1 dead-letter kind") {
		t.Errorf("%q", found)
	}
}
