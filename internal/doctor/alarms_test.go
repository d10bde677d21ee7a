package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// An alarmWard is a ward with alarms.
type alarmWard struct {
	*ward
	alarms *alarms.Alarms
}

func newAlarmWard(t *testing.T) alarmWard {
	t.Helper()
	w := newWard(t)
	a, err := alarms.Open(alarms.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	return alarmWard{w, a}
}

// create writes an alarm whose first failed delivery is the last of its firing.
func (w alarmWard) create(label, cron string) alarms.Alarm {
	w.Helper()
	n := alarms.New{OwnerDID: "did:example:1", UserID: "one", Label: label, Kind: alarms.KindOnce, Delay: time.Hour,
		WakeMessage: "go on", MaxFailures: 1}
	if cron != "" {
		n.Kind, n.CronExpr, n.Delay = alarms.KindCron, cron, 0
	}
	a, _, err := w.alarms.On(w.Pool).CreateAlarm(w.Context(), n)
	must(w, err)
	return a
}

// passes makes alarms due, as if so much time had passed since they were created.
func (w alarmWard) passes(d time.Duration) {
	w.Helper()
	w.exec("UPDATE alarms SET created_at = created_at - $1::interval, next_fire_at = now()", d.String())
	w.exec("UPDATE timers SET due_at = now(), fire_at = fire_at - $1::interval WHERE status = 0", d.String())
}

// serves runs a dispatcher whose receiver answers so, until a condition on the alarms holds.
func (w alarmWard) serves(answer error, until string) {
	w.Helper()
	waker := alarms.WakerFunc(func(context.Context, alarms.Wake) error { return answer })
	dispatcher, err := alarms.NewDispatcher(w.Pool, w.alarms, waker,
		alarms.DispatcherOptions{PollInterval: 20 * time.Millisecond})
	must(w, err)
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	w.becomes(until, func() bool { return ask[bool](w.ward, "SELECT bool_and("+until+") FROM alarms") })
	stop()
	must(w, <-ended)
}

var errReceiver = errors.New("the receiver answered 503: no capacity")

// A series whose receiver always fails is named with what it has missed, and no more once the receiver is back.
func TestASeriesThatKeepsFailing(t *testing.T) {
	w := newAlarmWard(t)
	a := w.create("morning report", "@every 10m")
	w.create("healthy", "@every 10m")
	w.passes(65 * time.Minute)
	w.serves(errReceiver, "last_error <> '' AND next_fire_at > now()")
	w.exec("UPDATE alarms SET last_error = '', last_fired_at = now() WHERE label = 'healthy'")

	texts := []string{a.ID, "morning report", "its last 6 occurrences", "503: no capacity", "alarm/" + a.ID}
	f := w.finds("alarm-failing", texts)
	if f.Severity != doctor.Warning || f.Table != "alarms" || len(f.Evidence) != 1 ||
		f.Evidence[0].Get("missed") != int64(6) || strings.Contains(fmt.Sprint(f), "healthy") {
		t.Errorf("found %+v", f)
	}
	w.exec("UPDATE alarms SET next_fire_at = now(); UPDATE timers SET due_at = now() WHERE status = 0")
	w.serves(nil, "last_error = ''")
	w.goneAfter(f, byWord, []string{"alarms"})
}

// A series that is only retried, or that has missed one occurrence a moment ago, is no finding yet. One that the next
// occurrences overtake is, although none was given up.
func TestASeriesThatIsRetried(t *testing.T) {
	w := newAlarmWard(t)
	w.create("minutely", "@every 1m")
	w.exec("UPDATE alarms SET max_failures = 1000")
	w.passes(3 * time.Minute)
	w.serves(errReceiver, "failure_count > 0")
	w.goneNow("alarm-failing", nil)
	w.exec("UPDATE alarms SET created_at = now() - interval '59 minutes'")
	w.finds("alarm-failing", []string{"minutely", "its last 5"}) // 58 or 59: the latest may still be delivered

	w.exec("UPDATE alarms SET cron_expr = '@every 2h'") // the first occurrence is yet to come
	w.goneNow("alarm-failing", nil)
}

// Many are counted, and five of them shown. Those whose rule nobody can read hide no others.
func TestManySeriesThatKeepFailing(t *testing.T) {
	w := newAlarmWard(t)
	w.exec(`INSERT INTO alarms (owner_did, user_id, label, kind, cron_expr, timezone, next_fire_at, last_error, created_at)
		SELECT 'd', 'u', 'series ' || i, 'cron', CASE WHEN i % 2 = 0 THEN '@every 1h' ELSE 'no rule' END, 'UTC',
			now() + interval '1 hour', 'refused', now() - interval '1 day' - i * interval '1 second'
		FROM generate_series(1, 12) AS g (i)`)
	f := w.finds("alarm-failing", []string{"12 repeating alarms keep failing", "series 12", "its last 24 occurrences"})
	if len(f.Evidence) != 5 || f.Evidence[0].Get("found") != int64(12) || f.Evidence[1].Get("label") != "series 11" ||
		f.Evidence[1].Get("missed") != int64(1) {
		t.Errorf("found %+v", f.Evidence)
	}
	w.exec(`INSERT INTO alarms (owner_did, user_id, kind, cron_expr, next_fire_at, last_error, created_at)
		SELECT 'd', 'u', 'cron', '@every 1s', now() + interval '1 hour', 'refused', now() - interval '1 hour'
		FROM generate_series(1, 1000)`)
	r, err := doctor.Examine(t.Context(), w.Pool, w.options())
	must(t, err)
	if !skips(r, "alarm-failing", "alarms", "1000 or more repeating alarms") {
		t.Errorf("skipped %+v", r.Skipped)
	}
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "alarm-failing" })
	if i < 0 || r.Findings[i].Evidence[0].Get("found_at_least") != int64(1000) {
		t.Errorf("findings %+v", r.Findings)
	}
}

// However many alarms there are, those that fail are read by their index.
func TestSeriesThatFailAmongMany(t *testing.T) {
	w := newAlarmWard(t)
	w.exec(`INSERT INTO alarms (owner_did, user_id, kind, cron_expr, next_fire_at, last_error, created_at)
		SELECT 'd', 'u', 'cron', '@every 1h', now() + interval '1 hour', CASE i WHEN 777 THEN 'refused' ELSE '' END,
			now() - interval '1 day'
		FROM generate_series(1, 5000) AS g (i)`)
	w.exec("ANALYZE alarms")
	text, err := os.ReadFile("sql/alarms_failing.sql")
	must(t, err)
	conn := w.session("explain")
	w.says(conn, "SET enable_seqscan = off") // as examinations do
	var plan string
	must(t, conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+strings.NewReplacer("{{.Table}}", "alarms", "$1::int",
		"1000").Replace(string(text))).Scan(&plan))
	if !strings.Contains(plan, "alarms_failing_idx") || strings.Contains(plan, `"Sort"`) {
		t.Errorf("the plan is %s", plan)
	}
	w.finds("alarm-failing", []string{"1 repeating alarm keeps failing", "its last 24 occurrences"})
}

// skips tells whether a check was not made in full for a reason, with a remedy.
func skips(r doctor.Report, check, table, reason string) bool {
	return slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
		return s.Check == check && s.Table == table && strings.Contains(s.Reason, reason) && s.Remedy != ""
	})
}

// An alarm that has failed is named, and its timer redriven as printed: it is then delivered.
func TestAnAlarmThatHasFailed(t *testing.T) {
	w := newAlarmWard(t)
	a := w.create("confirm the transfer", "")
	w.passes(time.Hour)
	w.serves(errReceiver, "status = 'failed'")
	f := w.finds("alarm-failed", []string{"1 alarm failed within 24 h", a.ID, "confirm the transfer", "no capacity"})
	if f.Severity != doctor.Warning || f.Table != "alarms" || len(f.Evidence) != 1 {
		t.Errorf("found %+v", f)
	}
	w.mends(f, []string{a.ID})
	w.serves(nil, "status = 'fired'")
	w.goneNow("alarm-failed", nil)
}

// What failed more than a day ago, timers of others, and what somebody cancelled are no alarms that have failed. Those
// that are, are no poison beside.
func TestDeadLettersOfAlarms(t *testing.T) {
	w := newAlarmWard(t)
	for i := range 7 {
		w.create(fmt.Sprint("alarm ", i), "")
	}
	w.passes(time.Hour)
	w.serves(errReceiver, "status = 'failed'")
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	w.in(func(tx workqueue.Tx) error {
		for _, key := range []string{"alarm/none", "alarm/00000000-0000-4000-8000-000000000000", "bill/1"} {
			if _, err := clock.Set(w.Context(), tx, timers.Timer{Key: key, Topic: "alarm",
				Payload: []byte("{}")}); err != nil {
				return err
			}
		}
		return nil
	})
	w.exec("UPDATE timers SET status = 3, completed_at = now(), failed_at = now(), last_error = 'no capacity', " +
		"owner_token = gen_random_uuid() WHERE status = 0")
	f := w.finds("alarm-failed", []string{"7 alarms failed within 24 h"})
	if len(f.Evidence) != 5 || f.Evidence[0].Get("found") != int64(7) {
		t.Errorf("found %+v", f)
	}
	if p := w.with("poison", nil); p != nil {
		t.Errorf("poison %+v", *p)
	}
	w.exec("UPDATE timers SET failed_at = failed_at - interval '25 hours', completed_at = completed_at - interval " +
		"'25 hours', created_at = created_at - interval '2 days'")
	w.goneNow("alarm-failed", nil)
}

// A due alarm without a timer is named, and no more once a dispatcher runs. One with a timer waits for a worker of
// timers, which is another finding.
func TestADueAlarmWithoutATimer(t *testing.T) {
	w := newAlarmWard(t)
	a := w.create("confirm the transfer", "")
	w.create("has a timer", "")
	ended := w.create("its timer has ended", "@every 1h")
	w.exec("UPDATE alarms SET next_fire_at = now() - interval '1 minute'")
	w.exec("DELETE FROM timers WHERE key = $1", alarms.KeyPrefix+a.ID)
	w.goneNow("alarm-stranded", nil) // dispatchers repair every five seconds

	w.exec("UPDATE alarms SET next_fire_at = now() - interval '5 minutes' WHERE label <> 'confirm the transfer'")
	w.exec("UPDATE alarms SET next_fire_at = now() - interval '6 minutes' WHERE id = $1", a.ID)
	w.exec("UPDATE timers SET due_at = now() WHERE status = 0")
	w.exec("UPDATE timers SET status = 3, completed_at = now(), failed_at = now(), last_error = 'x', owner_token = "+
		"gen_random_uuid() WHERE key = $1", alarms.KeyPrefix+ended.ID)
	f := w.finds("alarm-stranded", []string{"2 alarms are due and have no timer that could fire, the first for 6 min",
		a.ID, "confirm the transfer", "its timer has ended", "Start a dispatcher"})
	if f.Severity != doctor.Critical || f.Table != "alarms" || len(f.Evidence) != 2 ||
		f.Evidence[0].Get("timer_has_ended") != false || f.Evidence[1].Get("timer_has_ended") != true {
		t.Errorf("found %+v", f)
	}
	w.serves(nil, "status <> 'active' OR next_fire_at > now()")
	w.goneAfter(f, byWord, []string{"alarms"})
}

// A role that may not read alarms, or sees a part of them, learns that they were not looked at.
func TestAlarmsThatAreHidden(t *testing.T) {
	w := newAlarmWard(t)
	role, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}",
		"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}", "GRANT pg_read_all_stats TO {role}",
		"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {role}")
	look := func() doctor.Report {
		t.Helper()
		r, err := doctor.Examine(t.Context(), pool, w.options())
		must(t, err)
		return r
	}
	of := func(s doctor.Skipped) bool { return strings.HasPrefix(s.Check, "alarm-") }
	if r := look(); slices.ContainsFunc(r.Skipped, of) {
		t.Errorf("nothing hides them: %+v", r.Skipped)
	}
	w.exec("ALTER TABLE alarms ENABLE ROW LEVEL SECURITY")
	r := look()
	for _, check := range []string{"alarm-failed", "alarm-failing", "alarm-stranded"} {
		if !skips(r, check, "alarms", "row-level security shows role \""+role+"\"") {
			t.Errorf("%s is not named: %+v", check, r.Skipped)
		}
	}
	w.exec("ALTER TABLE alarms DISABLE ROW LEVEL SECURITY; ALTER TABLE timers ENABLE ROW LEVEL SECURITY")
	r = look()
	for _, check := range []string{"alarm-failed", "alarm-stranded"} {
		if !skips(r, check, "timers", "row-level security") || skips(r, "alarm-failing", "alarms", "row") {
			t.Errorf("%s: timers are hidden: %+v", check, r.Skipped)
		}
	}
	w.exec("ALTER TABLE timers DISABLE ROW LEVEL SECURITY; REVOKE SELECT ON alarms FROM " + role)
	r = look()
	for _, check := range []string{"alarm-failed", "alarm-failing", "alarm-stranded"} {
		if !skips(r, check, "alarms", "permission denied for table alarms") {
			t.Errorf("%s is not named: %+v", check, r.Skipped)
		}
	}
	w.exec("GRANT SELECT ON alarms TO " + role + "; REVOKE SELECT ON timers FROM " + role)
	r = look()
	for _, check := range []string{"alarm-failed", "alarm-stranded"} {
		if !skips(r, check, "timers", "permission denied for table timers") {
			t.Errorf("%s: timers may not be read: %+v", check, r.Skipped)
		}
	}
}

// A locked table is named with who locks it, whichever of the two it is.
func TestAlarmsThatAreLocked(t *testing.T) {
	for _, locked := range []string{"alarms", "timers"} {
		t.Run(locked, func(t *testing.T) {
			w := newAlarmWard(t)
			holder := w.session("ddl")
			w.says(holder, "BEGIN", "LOCK TABLE "+w.Schema+"."+locked+" IN ACCESS EXCLUSIVE MODE")
			r, err := doctor.Examine(t.Context(), w.Pool, w.options())
			must(t, err)
			i := slices.IndexFunc(r.Skipped, func(s doctor.Skipped) bool {
				return s.Check == "alarm-failed" && s.Table == locked
			})
			if i < 0 || len(r.Skipped[i].Holders) != 1 ||
				r.Skipped[i].Holders[0].Get("pid") != int64(holder.PgConn().PID()) {
				t.Errorf("skipped %+v", r.Skipped)
			}
		})
	}
}

// A table that is only called so is the application's, and a schema need not have alarms.
func TestATableThatIsCalledAlarms(t *testing.T) {
	w := newEmptyWard(t)
	w.migrate("reaper", "outbox")
	w.exec("CREATE TABLE alarms (id bigint, last_error text)")
	for _, s := range w.examine().Findings {
		if strings.HasPrefix(s.Code, "alarm") {
			t.Errorf("found %+v", s)
		}
	}
}
