package security_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// concludes are the functions that conclude something from the absence of rows, by the end of their names, with what
// a role would do wrong that does not see all rows. Each refuses such a role, with one SQLSTATE.
var concludes = map[string]string{
	"_key_place":      "a place before those of rows that it does not see",
	"_key_forget":     "state that it does not see would outlive the rows",
	"_key_fold":       "notes of rows that it does not see would be deleted",
	"_key_next":       "a second row of a key would be released",
	"_key_fill":       "more rows than the limit would be released",
	"_key_park":       "rows would not be parked, and none would ask for them again",
	"_key_sweep":      "the sweep's cursor would pass keys that it does not see, and their state would be deleted",
	"_key_look":       "the next sweep would begin behind keys that it does not see",
	"_join_apply":     "notes would be deleted, and hidden steps taken for gone",
	"_join_fold":      "see _join_apply",
	"_join_finish":    "joins would end without their continuations",
	"_join_end":       "a continuation that it does not see would wait for ever",
	"_join_recount":   "hidden steps would count as failed",
	"_join_purge":     "a join would be deleted before steps that it does not see",
	"_join_forget":    "see _join_purge",
	"_join_strand":    "rows would fail because their join is hidden",
	"_join_row":       "a join would seem to be nobody's, and open to the steps of all",
	"_join_sweep":     "see _join_forget and _join_strand",
	"_claim_by_topic": "rows of a paused topic would start",
	"inbox_fetch":     "see _claim_by_topic",
	"letters_fetch":   "see _claim_by_topic",
	"outbox_fetch":    "see _claim_by_topic",
	"_pause":          "rows that it does not see would stop",
	"_resume":         "a pause that it does not see would be taken for ended",
	"_admit":          "more jobs than the limit of a queue would run",
	"_permit":         "see _admit",
	"_starts":         "see _admit",
	"_take":           "jobs would run without a slot",
	"_limit":          "the limit of a queue would hold for jobs that it does not see",
	"_slot_sweep":     "the slots of running jobs would be deleted",
	"jobs_forget":     "attempts and steps would outlive their job",
	"_maintain_step":  "a table would be noted as maintained; the procedure maintain calls it first",
	"leader_note":     "a table would be noted as maintained",
}

// touches are the functions that only touch rows which the role sees, or which it is told of by the row of a trigger.
var touches = []string{"_settle_rows", "_settle", "_ack", "_retry", "_snooze", "_wait_until", "_release", "_fail",
	"_extend", "_claim_admitted", "_fetch", "_reap_expired",
	"_redrive", "_run_now", "_reschedule", "_cancel", "_discard", "_delete",
	"_announce", "_key_enter", "_key_come", "_key_back", "_key_wait",
	"_key_note", "_key_move", "_unblock", "_policies",
	"_join_settled", "_free_key", "_check_key", "_chain_key", "_unique_hash",
	"_record", "_give_slot", "_give_start", "_spans", "_begin", "_strip", "_rearm",
	"_disarm", "_purge", "_each", "_fold_step", "_fold", "_maintain", "_topics", "_topic_changed", "_enqueue",
	"_receive", "_set", "owner_token", "process_beat", "audit_trim", "history_merge",
	"protocol", "require", "_enqueue_many", "_receive_many", "_set_many", "_start_join", "_start_batch",
	"_schedule_pause", "_schedule_resume", "_schedule_trigger",
	"_steps", "_put_step", "_progress", "_output", "_complete", "_get", "_stats"}

// Each function is known either to conclude nothing from absence, or to refuse a role that does not see all rows.
func TestEveryFunctionIsKnownToConcludeOrNot(t *testing.T) {
	f := newFixture(t)
	used := map[string]bool{}
	for _, one := range f.functions() {
		suffix := verdict(one.name)
		used[suffix] = true
		_, does := concludes[suffix]
		// _stats only tells that it does not see all rows, and a settle then lets no topic rest
		guarded := strings.Contains(one.body, "row_security_active(") && suffix != "_stats" && suffix != "_settle_rows"
		switch {
		case suffix == "":
			t.Errorf("%s is in neither list: does it conclude something from the absence of rows?", one.signature)
		case does && !guarded:
			t.Errorf("%s does not ask whether it sees all rows", one.signature)
		case !does && guarded:
			t.Errorf("%s is said to conclude nothing, and asks whether it sees all rows", one.signature)
		}
	}
	for suffix := range concludes {
		if !used[suffix] {
			t.Errorf("no function ends with %s", suffix)
		}
	}
}

// verdict is the longest entry of the two lists with which a name ends.
func verdict(name string) (longest string) {
	consider := func(suffix string) {
		if strings.HasSuffix(name, suffix) && len(suffix) > len(longest) {
			longest = suffix
		}
	}
	for suffix := range concludes {
		consider(suffix)
	}
	for _, suffix := range touches {
		consider(suffix)
	}
	return longest
}

// separate puts all tables with rows of tenants under policies. A session sees the rows whose column begins with its
// tenant, and of the other tables nothing.
func (f *fixture) separate() {
	f.t.Helper()
	for table, column := range map[string]string{
		"outbox": "topic", "jobs": "queue", "timers": "key", "letters": "address",
		"jobs_schedule": "name", "timers_schedule": "name", "inbox": "consumer", "alarms": "owner_did"} {
		f.exec(f.db.Pool, fmt.Sprintf(`ALTER TABLE %[1]s ENABLE ROW LEVEL SECURITY;
			CREATE POLICY tenant ON %[1]s USING (starts_with(%[2]s, current_setting('app.tenant', true) || '.'))`, table,
			column))
	}
}

// tenant returns a pool of the worker's role for one tenant.
func (f *fixture) tenant(name string) *pgxpool.Pool { return f.asTenant("worker", name) }

// A role that sees only a part of the rows is refused by each function that concludes something from absence, whatever
// its arguments.
func TestWhatConcludesRefusesAPartialView(t *testing.T) {
	f := newFixture(t)
	f.separate()
	for _, table := range []string{"jobs_queue", "outbox_topic", "inbox_topic", "letters_topic"} {
		f.exec(f.db.Pool, "ALTER TABLE "+table+" ENABLE ROW LEVEL SECURITY")
	}
	tenant := f.tenant("acme")
	calls := f.lines(`SELECT CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || p.oid::regproc || '(' || coalesce((
			SELECT string_agg('NULL::' || format_type(a.type, NULL), ', ' ORDER BY a.n)
			FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, n)), '') || ')'
		FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace AND p.prorettype <> 'trigger'::regtype
		ORDER BY 1`, f.db.Schema)
	refused := 0
	for _, call := range calls {
		name := call[:strings.Index(call, "(")]
		if _, does := concludes[verdict(name)]; !does || has(definers, name) {
			continue
		}
		if strings.HasSuffix(name, "leader_note") {
			call = fmt.Sprintf("SELECT %s.leader_note('%s.jobs')", f.db.Schema, f.db.Schema)
		}
		refused++
		_, err := tenant.Exec(t.Context(), call)
		f.isRefused(forbidden, call, err)
		if err != nil && !strings.Contains(err.Error(), "row-level security") {
			t.Errorf("%s: %v does not say why", call, err)
		}
	}
	if refused < 40 {
		t.Errorf("only %d functions were tried of %q", refused, calls)
	}
}

// A fold by a tenant leaves the notes of others alone, and so do the sweeps of slots and joins.
func TestATenantDestroysNoWorkOfOthers(t *testing.T) {
	f := newFixture(t)
	f.separate()
	owner, acme := f.db.Pool, f.tenant("acme")
	f.in(f.asTenant("producer", "globex"), func(ctx context.Context, tx workqueue.Tx) error {
		for range 20 {
			if _, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "globex.t", Key: "globex.k"}); err != nil {
				return err
			}
		}
		return nil
	})
	f.exec(owner, `INSERT INTO jobs (kind, queue, priority, args, status, attempts, owner_token, locked_until, slot)
		VALUES ('k', 'globex.q', 1, '', 1, 1, gen_random_uuid(), now() + interval '1 hour', true)`)
	f.exec(owner, `INSERT INTO jobs_slot (job_id, queue, taken_at) SELECT id, queue, now() - interval '1 hour' FROM jobs`)

	for _, call := range []string{"outbox_key_fold(1000)", "outbox_fold_step(1000, NULL, 0)", "outbox_key_sweep(1000)",
		"outbox_join_fold(1000)", "outbox_join_sweep(1000)", "jobs_slot_sweep(1000)"} {
		f.refuses(acme, forbidden, "SELECT * FROM {schema}."+call)
	}

	if n := ask[int](f, "SELECT count(*)::int FROM {schema}.outbox_key_note"); n != 20 {
		t.Errorf("%d of 20 notes are left", n)
	}
	if n := ask[int](f, "SELECT count(*)::int FROM {schema}.jobs_slot"); n != 1 {
		t.Error("the slot of another tenant's running job is gone")
	}
	if n := ask[int](f, "SELECT folded FROM {schema}.outbox_key_fold(1000)"); n != 20 {
		t.Errorf("the owner folds %d notes, want 20", n)
	}
}

// The relay of a tenant does its own work beside that of a role that sees all, whoever starts first, and says once that
// it leaves the rest.
func TestATenantsRelayLeavesFoldsToOthers(t *testing.T) {
	f := newFixture(t)
	f.separate()
	enqueue := func(tenant string) {
		f.in(f.asTenant("producer", tenant), func(ctx context.Context, tx workqueue.Tx) error {
			for range 10 {
				m := outbox.Message{Topic: tenant + ".t", Key: tenant + ".k"}
				if _, err := f.outbox.Enqueue(ctx, tx, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var said logText
	o, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: outbox.PerKey,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.NewTextHandler(&said, nil))}})
	must(t, err)
	f.relay(o, f.tenant("acme"), "acme.t")
	enqueue("acme")
	enqueue("globex")
	f.await("the relay to say that it leaves folds", func() bool {
		return said.count("the role may not fold and sweep this table") > 0
	})
	f.relay(f.outbox, f.db.Pool, "globex.t", "acme.t") // it sees the rows of all, and takes whichever are ready
	f.await("every message to be done", func() bool {
		return ask[int](f, "SELECT count(*)::int FROM {schema}.outbox WHERE status = 2") == 20
	})
	if n := said.count("the role may not fold and sweep this table"); n != 1 {
		t.Errorf("the relay says %d times that it leaves folds, want once:\n%s", n, said.String())
	}
	if n := said.count("level=ERROR"); n > 0 {
		t.Errorf("the relay reports errors:\n%s", said.String())
	}
}

// A tenant's reaper is elected for no table of which it does not see all rows, and says so.
func TestATenantsReaperIsNotElected(t *testing.T) {
	f := newFixture(t)
	f.separate()
	f.exec(f.db.Pool, `INSERT INTO outbox (topic, payload, status, attempts, owner_token, locked_until)
		VALUES ('globex.t', '', 1, 1, gen_random_uuid(), now() - interval '1 minute')`)
	all := []*workqueue.Table{f.outbox.Table(), f.inbox.Table()}
	o := reaper.Options{Schema: f.db.Schema, Logger: quiet.Logger}
	report, err := reaper.RunOnce(t.Context(), f.tenant("acme"), all, o)
	if err == nil || !strings.Contains(err.Error(), "row-level security") || report.Tables[0].Leader {
		t.Errorf("a tenant's round: %+v, %v; want a refusal", report, err)
	}
	led := "SELECT coalesce((SELECT holder || ' ' || term FROM {schema}.leader WHERE name LIKE '%.outbox'), 'nobody')"
	if leader := ask[string](f, led); leader != "nobody" {
		t.Errorf("outbox is led by %s, want nobody", leader)
	}
	report, err = reaper.RunOnce(t.Context(), f.db.Pool, all, o)
	must(t, err)
	if !report.Tables[0].Leader || report.Tables[0].Requeued != 1 {
		t.Errorf("the owner's round: %+v, want one requeued row", report)
	}
	f.exec(f.db.Pool, "UPDATE leader SET expires_at = now() - interval '1 minute', granted_at = now() - interval '1 hour'")
	before := ask[string](f, led)
	if _, err := reaper.RunOnce(t.Context(), f.tenant("acme"), all, o); err == nil {
		t.Error("a tenant leads when the leader is gone")
	}
	if leader := ask[string](f, led); leader != before {
		t.Errorf("outbox is led by %s, want no change of %s", leader, before)
	}
}

// Row-level security of a table that has the same name in another schema keeps nobody from leading.
func TestATablesNamesakeIsNotLookedAt(t *testing.T) {
	f := newFixture(t)
	other := f.db.Schema + "_other"
	f.exec(f.db.Pool, fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.outbox (); "+
		"ALTER TABLE %[1]s.outbox ENABLE ROW LEVEL SECURITY", other))
	t.Cleanup(func() {
		_, err := f.db.Pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+other+" CASCADE")
		must(t, err)
	})
	report, err := reaper.RunOnce(t.Context(), f.tenant("acme"), []*workqueue.Table{f.outbox.Table()},
		reaper.Options{Schema: f.db.Schema, Logger: quiet.Logger})
	if err != nil || !report.Tables[0].Leader {
		t.Errorf("the round beside a namesake: %+v, %v", report, err)
	}
}

// A writer draws a place behind rows that it does not see, even if the sequence lags behind the table.
func TestAPlaceIsBehindRowsThatAreHidden(t *testing.T) {
	f := newFixture(t)
	f.separate()
	enqueue := func(tenant string) error {
		return f.try(f.asTenant("producer", tenant), func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: tenant + ".t", Key: "shared"})
			return err
		})
	}
	f.exec(f.db.Pool, "SELECT setval('outbox_key_seq', 100)")
	must(t, enqueue("globex"))
	f.exec(f.db.Pool, "SELECT setval('outbox_key_seq', 1)") // as after logical replication
	must(t, enqueue("acme"))
	order := f.lines("SELECT topic FROM " + f.db.Schema + ".outbox ORDER BY key_seq")
	if !slices.Equal(order, []string{"globex.t", "acme.t"}) {
		t.Errorf("the places are those of %q", order)
	}
	f.exec(f.db.Pool, "ALTER TABLE outbox FORCE ROW LEVEL SECURITY; ALTER ROLE "+f.role("owner")+" NOBYPASSRLS")
	f.isRefused(forbidden, "an insert where not even the owner sees all", enqueue("acme"))
}

// A join of another tenant neither ends nor fails because its steps are hidden, and a tenant may cancel its own.
func TestATenantEndsNoJoinOfOthers(t *testing.T) {
	f := newFixture(t)
	f.separate()
	waiting, id := uuid.New(), uuid.New()
	f.exec(f.db.Pool, "INSERT INTO outbox (id, topic, payload, waiting) VALUES ($1, 'globex.t', '', true)", waiting)
	f.exec(f.db.Pool, "INSERT INTO outbox_join (id, on_complete, expected, retention) VALUES ($1, $2, 1, '1 hour')", id,
		waiting)
	f.refuses(f.tenant("acme"), forbidden, "SELECT {schema}.outbox_join_end(ARRAY[$1::uuid], 3::smallint, 'mine')", id)
	f.exec(f.tenant("globex"), "SELECT "+f.db.Schema+".outbox_join_end(ARRAY[$1::uuid], 3::smallint, 'mine')", id)
	if s := ask[int](f, "SELECT status::int FROM {schema}.outbox WHERE id = $1", waiting); s != 3 {
		t.Errorf("the continuation has status %d after its tenant has cancelled the join", s)
	}
}

func (f *fixture) relay(o *outbox.Outbox, pool *pgxpool.Pool, topics ...string) {
	f.t.Helper()
	relay, err := outbox.NewRelay(pool, o, outbox.RelayOptions{
		WorkerOptions: workqueue.WorkerOptions{PollInterval: 100 * time.Millisecond}})
	must(f.t, err)
	for _, topic := range topics {
		relay.Handle(topic, func(context.Context, *outbox.Delivery) error { return nil })
	}
	f.run(relay.Run)
}

// run runs a worker until the test ends.
func (f *fixture) run(work func(context.Context) error) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	f.t.Cleanup(func() { stop(); must(f.t, <-done) })
}

// asTenant returns a pool that logs in as a role, whose sessions are of a tenant.
func (f *fixture) asTenant(role, tenant string) *pgxpool.Pool {
	f.t.Helper()
	config, err := pgxpool.ParseConfig(f.db.URL)
	must(f.t, err)
	config.ConnConfig.User, config.ConnConfig.Password, config.MaxConns = f.role(role), password, 8
	config.ConnConfig.RuntimeParams["app.tenant"] = tenant
	pool, err := pgxpool.NewWithConfig(f.t.Context(), config)
	must(f.t, err)
	f.t.Cleanup(pool.Close)
	return pool
}

// A logText collects what is logged.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logText) count(part string) int { return strings.Count(l.String(), part) }

func (f *fixture) await(what string, is func() bool) {
	f.t.Helper()
	if !pgtest.Await(pgtest.Patience, is) {
		f.t.Fatalf("waited in vain for %s", what)
	}
}
