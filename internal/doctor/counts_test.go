package doctor_test

import (
	"fmt"
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
