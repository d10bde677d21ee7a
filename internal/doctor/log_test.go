package doctor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/migrations"
)

// newLogWard has an outbox that is a log, beside all other tables, and subscriptions.
func newLogWard(t *testing.T, subscriptions ...string) *ward {
	t.Helper()
	w := newEmptyWard(t)
	w.migrate(migrations.Domains()...)
	w.exec("CALL outbox_log_tick()")
	for _, name := range subscriptions {
		w.exec("SELECT outbox_log_subscribe($1)", name)
	}
	return w
}

// wrote writes messages that are 50 minutes old, of which a tick of that age knows if ticked.
func (w *ward) wrote(n int, ticked bool) {
	w.Helper()
	w.exec("INSERT INTO outbox_log (topic, payload, created_at) SELECT 't', '', now() - interval '50 minutes' "+
		"FROM generate_series(1, $1)", n)
	if ticked {
		w.exec("CALL outbox_log_tick()")
		w.exec("UPDATE outbox_log_tick SET at = at - interval '50 minutes'")
	}
}

// fetched acts as a consumer that has a page in hand.
func (w *ward) fetched(subscription string) {
	w.Helper()
	w.exec("SELECT outbox_log_fetch($1, $2, '1 hour', 10)", subscription, uuid.NewString())
}

func TestASubscriptionThatNobodyReads(t *testing.T) {
	w := newLogWard(t, "search", "audit", "paused", "billing")
	w.exec("SELECT outbox_log_pause('paused')")
	w.wrote(3, true)
	w.fetched("billing")
	want := []string{"subscription search", "3 messages, for 50 min, and the log keeps 1 MB for it"}
	f := w.finds("subscription-unserved", want)
	if all := w.all("subscription-unserved"); len(all) != 2 || all[0].Table != "outbox_log" ||
		all[0].Evidence[0].Get("messages") != int64(3) || all[0].Evidence[0].Get("retained_bytes").(int64) <= 0 {
		t.Errorf("findings %+v, want those of audit and search", all)
	}
	w.keeps(f)
	w.exec("SELECT outbox_log_cut('search', '2 minutes')")
	w.goneAfter(f, byWord, want)
	if left := w.all("subscription-unserved"); len(left) != 1 || !strings.Contains(left[0].Title, "audit") {
		t.Errorf("findings %+v, want that of audit", left)
	}
	w.exec("SELECT outbox_log_unsubscribe('audit')")
	if left := w.all("subscription-unserved"); len(left) > 0 {
		t.Errorf("findings %+v, want none", left)
	}
}

// keeps checks that nothing that is printed loses messages: a destination may only be away for a while.
func (w *ward) keeps(f doctor.Finding) {
	w.Helper()
	if len(f.Remedy.SQL) > 0 || slices.ContainsFunc(f.Remedy.Commands, func(command string) bool {
		return !strings.Contains(command, " --dry-run")
	}) {
		w.Errorf("the remedy loses messages: %+v", f.Remedy)
	}
}

// What a subscription has not passed is kept for it, even if none of it is for the subscription.
func TestASubscriptionWithoutMessagesThatNobodyReads(t *testing.T) {
	w := newLogWard(t)
	w.exec("SELECT outbox_log_subscribe('nothing', '{none}')")
	w.wrote(3, true)
	w.finds("subscription-unserved", []string{"subscription nothing: 0 messages, for 50 min"})
}

// A subscription that is about to lose messages by its retention is named before it does, and for a day afterwards.
func TestASubscriptionThatLosesMessages(t *testing.T) {
	w := newLogWard(t, "billing", "search")
	w.wrote(3, true)
	w.exec("SELECT outbox_log_change('billing', max_age => '1 hour')")
	w.exec("SELECT outbox_log_change('search', max_age => '2 hours', max_messages => 100)")
	want := []string{"subscription billing is at 83 % of its retention", "3 messages, for 50 min"}
	f := w.finds("subscription-losing", want)
	if all := w.all("subscription-losing"); len(all) != 1 || f.Severity != doctor.Warning ||
		len(f.Remedy.Commands) != 1 || !strings.Contains(f.Remedy.Commands[0], "subscriptions change billing --max-age 7200s") {
		t.Errorf("findings %+v, want that of billing", all)
	}
	w.exec("SELECT outbox_log_change('billing', max_age => '2 hours')")
	w.goneAfter(f, byWord, want)
	w.exec("SELECT outbox_log_change('search', max_messages => 3)")
	w.finds("subscription-losing", []string{"subscription search is at 100 % of its retention"})
	w.exec("SELECT outbox_log_change('search', max_messages => 0)")
	w.exec("SELECT outbox_log_change('billing', max_age => '10 minutes')")
	w.exec("SELECT outbox_log_parked_retain(100)")
	f = w.finds("subscription-losing", []string{"subscription billing has lost 3 messages by its retention in the last " +
		"day, up to those of "})
	if len(f.Remedy.Commands) > 0 || f.Evidence[0].Get("lost_last_day") != int64(3) {
		t.Errorf("a loss: %+v", f)
	}
	w.exec("UPDATE outbox_log_loss SET at = at - interval '25 hours'")
	if left := w.all("subscription-losing"); len(left) > 0 {
		t.Errorf("findings a day later: %+v", left)
	}
}

// A consumer between two pages has nothing in hand, and moves on.
func TestASubscriptionThatIsBehind(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(3, true)
	w.fetched("billing")
	want := []string{"subscription billing is behind: 3 messages, for 50 min"}
	f := w.finds("subscription-behind", want)
	if left := w.all("subscription-unserved"); len(left) > 0 || f.Severity != doctor.Warning {
		t.Errorf("a subscription in hand: %s, and %+v", f.Severity, left)
	}
	w.exec("UPDATE outbox_log_position SET attempts = 5")
	w.finds("subscription-behind", []string{"a batch was claimed 5 times without being settled"})
	w.exec("UPDATE outbox_log_position SET attempts = 1")
	w.exec("SET session_replication_role = replica; UPDATE outbox_log SET created_at = created_at - interval '1 day'; " +
		"RESET session_replication_role")
	if f := w.finds("subscription-behind", nil); f.Severity != doctor.Critical {
		t.Errorf("a day behind: %s", f.Severity)
	}
	w.keeps(f)
	if !strings.Contains(f.Remedy.Commands[0], "subscriptions change billing --lanes 2 --replay-from ") {
		t.Errorf("the remedy is %+v", f.Remedy)
	}
	w.exec("SELECT outbox_log_cut('billing', '5 minutes')")
	w.goneAfter(f, byWord, want)
	w.exec("UPDATE outbox_log_position SET locked_until = now() - interval '1 minute'")
	w.wrote(1, true)
	w.finds("subscription-unserved", []string{"billing"}) // its consumer has died
}

// A subscription that rests is read, although no lane is in hand, as long as somebody probes its destination.
func TestASubscriptionWhoseDestinationIsUnavailable(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(3, true)
	w.fetched("billing")
	w.exec("SELECT outbox_log_unavailable('billing', (SELECT owner_token FROM outbox_log_position), " +
		"E'connection refused\nby the host')")
	f := w.finds("subscription-behind", []string{"billing is behind, and its destination has been unavailable for",
		"3 messages"})
	if e := f.Evidence[0]; e.Get("cause") != "connection refused" || e.Get("unavailable_seconds") == nil {
		t.Errorf("the evidence is %+v", e)
	}
	if r := f.Remedy; !strings.HasPrefix(r.Do, "Bring its destination back") || len(r.Commands) != 1 ||
		!strings.Contains(r.Commands[0], "subscriptions resume billing") {
		t.Errorf("the remedy is %+v", r)
	}
	w.exec("UPDATE outbox_log_position SET rest.until = now() - interval '5 minutes'")
	w.finds("subscription-unserved", []string{"billing"})
}

func TestAPausedSubscription(t *testing.T) {
	w := newLogWard(t, "billing")
	w.exec("SELECT outbox_log_pause('billing')")
	if found := w.all("subscription-paused"); len(found) > 0 {
		t.Errorf("nothing waits: %+v", found)
	}
	w.wrote(2, true)
	w.mends(w.finds("subscription-paused", []string{"billing is paused: 2 messages, for 50 min"}), nil)
}

// The successor of an outbox that moves is resumed by the end of the move, and not by hand.
func TestAMoveThatHasNotEnded(t *testing.T) {
	w := newLogWard(t, "billing")
	w.exec("SELECT outbox_log_pause('billing')")
	w.exec("UPDATE outbox_log_state SET successor = 'billing', moving = true")
	w.wrote(2, true)
	w.finds("subscription-paused", []string{"has not moved to subscription billing yet", "outbox move log"})
}

// Rows that do not move keep the successor paused: they are named at once.
func TestAMoveThatWaitsForRowsWithALimit(t *testing.T) {
	w := newLogWard(t, "billing")
	w.exec("SELECT outbox_log_pause('billing')")
	w.exec("INSERT INTO outbox (topic, payload, concurrency_key, key_limit, key_policy) VALUES ('t', '', 'k', 1, 0)")
	w.exec("UPDATE outbox_log_state SET successor = 'billing', moving = true")
	f := w.finds("subscription-paused", []string{"does not move to subscription billing", "1 row whose key has a lim"})
	if f.Evidence[0].Get("limited") != int64(1) {
		t.Errorf("the evidence is %+v", f.Evidence)
	}
	w.keeps(f)
}

func TestALogThatNobodyTicks(t *testing.T) {
	w := newLogWard(t)
	w.wrote(2, false)
	w.fixes(w.finds("log-unticked", []string{"50 min ago"}), nil)
	w.wrote(1, false)
	w.mends(w.finds("log-unticked", []string{"50 min ago"}), nil)
}

// A message of a long transaction is old when it can be seen, and is ticked a moment later.
func TestALogWhoseTickIsOnItsWay(t *testing.T) {
	w := newLogWard(t)
	tx, err := w.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "INSERT INTO outbox_log (topic, payload, created_at) VALUES ('t', '', now() - "+
		"interval '1 hour')")
	must(t, err)
	w.exec("INSERT INTO outbox_log (topic, payload) VALUES ('t', '')")
	w.exec("CALL outbox_log_tick()")
	must(t, tx.Commit(t.Context()))
	w.finds("log-unticked", nil)
	w.exec("CALL outbox_log_tick()")
	if found := w.all("log-unticked"); len(found) > 0 {
		t.Errorf("a tick has seen all: %+v", found)
	}
}

func TestALogThatNobodyTrims(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(2, true)
	w.exec(`SET session_replication_role = replica; UPDATE outbox_log SET created_at = now() - interval '10 days';
		UPDATE outbox_log_tick SET at = now() - interval '8 days'; RESET session_replication_role`)
	if found := w.all("log-untrimmed"); len(found) > 0 {
		t.Errorf("a subscription needs the messages: %+v", found)
	}
	w.exec("SELECT outbox_log_unsubscribe('billing')")
	w.mends(w.finds("log-untrimmed", []string{"10 days ago"}), nil)
}

func TestALogThatWasRestored(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(1, true)
	w.exec("UPDATE outbox_log_state SET system = system + 1")
	f := w.finds("log-restored", []string{"since tick"})
	if others := append(w.all("log-unticked"), w.all("subscription-unserved")...); len(others) > 0 {
		t.Errorf("beside a restore: %+v", others)
	}
	w.mends(f, nil)
}

// A log that is read has no findings, and its parked messages are looked at as rows.
func TestParkedMessagesThatNobodyRuns(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(1, true)
	token := uuid.NewString()
	w.exec("SELECT outbox_log_fetch('billing', $1, '1 hour', 10)", token)
	w.exec("SELECT outbox_log_settle('billing', $1, m.seq, jsonb_build_array(jsonb_build_object('seq', m.seq, "+
		"'delay', 0))) FROM outbox_log AS m", token)
	for _, f := range w.examine().Findings {
		if f.Table == "outbox_log" {
			t.Errorf("a log of which all is settled: %+v", f)
		}
	}
	w.exec("UPDATE outbox_log_parked SET due_at = now() - interval '1 hour'")
	w.finds("unserved", []string{"outbox_log_parked, subscription billing: 1 ready row"})
}

// Dead letters of one subscription are redriven, and not those of others that have the same topic and error.
func TestDeadLettersOfASubscription(t *testing.T) {
	w := newLogWard(t, "billing", "search")
	w.wrote(6, true)
	for _, name := range []string{"billing", "search"} {
		token := uuid.NewString()
		w.exec("SELECT outbox_log_fetch($1, $2, '1 hour', 10)", name, token)
		w.exec("SELECT outbox_log_settle($1, $2, max(m.seq), jsonb_agg(jsonb_build_object('seq', m.seq, 'delay', 0, "+
			"'outcome', 'fail', 'error', 'it is declined'))) FROM outbox_log AS m", name, token)
	}
	w.exec("UPDATE outbox_log_parked SET status = 3, completed_at = now(), failed_at = now(), last_error = 'it is declined'")
	w.mends(w.finds("poison", []string{`outbox_log_parked, subscription billing: topic "t": 6 dead letters`,
		"txwork redrive outbox_log_parked --newer-than 1h --error 'it is declined' --subscription billing --topic t"}), []string{"billing"})
	if n := ask[int](w, "SELECT count(*) FROM outbox_log_parked WHERE subscription = 'search' AND status = 3"); n != 6 {
		t.Errorf("%d dead letters of the other subscription are left, want 6", n)
	}
}

// A role that may not read a log says so, and never that nothing is wrong.
func TestALogThatTheRoleCannotSee(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(1, true)
	_, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}")
	w.skipsLog(pool, "permission denied")
}

// skipsLog checks that no check of the log is made, for a reason.
func (w *ward) skipsLog(pool *pgxpool.Pool, reason string) {
	w.Helper()
	r, err := doctor.Examine(w.Context(), pool, w.options())
	must(w, err)
	of := map[string]doctor.Skipped{}
	for _, s := range r.Skipped {
		if s.Table == "outbox_log" {
			of[s.Check] = s
		}
	}
	for _, code := range []string{"log-restored", "log-unticked", "subscription-unserved", "subscription-behind",
		"subscription-paused", "subscription-losing", "log-untrimmed"} {
		if s := of[code]; !strings.Contains(s.Reason, reason) || s.Remedy == "" {
			w.Errorf("%s was skipped so: %+v, want %q", code, s, reason)
		}
	}
}

// A role under row-level security is refused by the functions of the log.
func TestALogOfWhichTheRoleSeesAPart(t *testing.T) {
	w := newLogWard(t, "billing")
	w.wrote(1, true)
	w.exec("ALTER TABLE outbox_log_position ENABLE ROW LEVEL SECURITY")
	_, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}")
	w.skipsLog(pool, "row-level security")
}

// What is looked at does not grow with the log.
func TestALogWithManyMessages(t *testing.T) {
	w := newLogWard(t, "billing")
	w.exec("SELECT outbox_log_subscribe('nothing', '{none}')")
	w.wrote(60_000, true)
	w.finds("subscription-unserved", []string{"billing", "at least 10000 messages"})
	start := time.Now()
	w.finds("subscription-unserved", []string{"nothing", "at least 0 messages, for 50 min"})
	t.Logf("an examination took %v", time.Since(start))
}
