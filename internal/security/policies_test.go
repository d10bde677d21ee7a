package security_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// sides are the tables with what the rows of others would tell: their keys, labels, errors and results.
var sides = []string{"outbox_key_note", "outbox_key_state", "outbox_key_cursor", "outbox_join", "outbox_join_member",
	"outbox_join_note", "outbox_join_cursor", "jobs_key_note", "jobs_key_state", "jobs_key_cursor", "jobs_join",
	"jobs_join_member", "jobs_join_note", "jobs_join_cursor", "jobs_attempt", "jobs_step"}

// follow makes the policies of the side tables.
func (f *fixture) follow() {
	f.t.Helper()
	for _, function := range f.lines("SELECT p.oid::regprocedure::text FROM pg_proc AS p WHERE "+
		"p.pronamespace = $1::regnamespace AND p.proname LIKE '%\\_policies'", f.db.Schema) {
		f.exec(f.db.Pool, "SELECT "+function)
	}
}

// fill makes a tenant have rows in all tables.
func (f *fixture) fill(tenant string) (steps []uuid.UUID, id uuid.UUID) {
	f.t.Helper()
	worker, queue := f.tenant(tenant), tenant+".q"
	f.in(f.asTenant("producer", tenant), func(ctx context.Context, tx workqueue.Tx) error {
		message := outbox.Message{Topic: tenant + ".t", Key: tenant + ".k"}
		if _, err := f.outbox.EnqueueMany(ctx, tx, message, message); err != nil {
			return err
		}
		end := outbox.Message{Topic: tenant + ".t"}
		started, err := f.outbox.StartJoin(ctx, tx, outbox.Join{Label: tenant + " label", OnComplete: &end,
			Steps: []outbox.Message{message, {Topic: tenant + ".t"}}, Deadline: time.Now().Add(time.Hour)})
		steps, id = started.Steps, started.ID
		if err != nil {
			return err
		}
		if _, err := f.jobs.StartBatch(ctx, tx, jobs.Batch{Label: tenant + " batch",
			Deadline: time.Now().Add(time.Hour), Jobs: []jobs.Insert{{Args: printArgs{1}, Queue: queue},
				{Args: printArgs{2}, Queue: queue}}}); err != nil {
			return err
		}
		_, err = f.jobs.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{3}, Queue: queue,
			ByKey: keyed.Limited{Key: tenant + ".printer", MaxRunning: 1}})
		return err
	})
	for range 2 { // one fold releases, and the next knows the limited key
		f.exec(f.db.Pool, "SELECT jobs_fold_step(1000, NULL, 0)")
	}
	q, owner := f.jobs.Table().On(worker), workqueue.NewOwnerToken()
	rows, err := q.Claim(f.t.Context(), owner, time.Minute, 10, queue, 2)
	must(f.t, err)
	if len(rows) != 3 {
		f.t.Fatalf("%s claims %d jobs, want 3", tenant, len(rows))
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	f.exec(worker, "INSERT INTO jobs_step (job_id, name, result) SELECT u, 'spool', '1' FROM unnest($1::uuid[]) AS u",
		ids)
	_, err = q.Abandon(f.t.Context(), owner, ids, 0, "the secret of "+tenant)
	must(f.t, err)
	return steps, id
}

// Nobody reads or changes in side tables what belongs to rows that are hidden from him, whatever his role.
func TestSideTablesShowWhatTheirRowsShow(t *testing.T) {
	f := newFixture(t)
	f.separate()
	f.follow()
	f.exec(f.db.Pool, "INSERT INTO jobs_queue (name, max_running, rate, burst) VALUES ('globex.q', 9, 100, 100)")
	steps, id := f.fill("globex")
	empty := []string{"outbox_key_state", "jobs_key_state"} // filled by keys with many rows only
	for _, table := range sides {
		if n := ask[int](f, "SELECT count(*)::int FROM {schema}."+table); n == 0 && !slices.Contains(empty, table) {
			t.Errorf("%s has no rows: the test shows nothing", table)
		}
		for _, role := range []string{"worker", "viewer"} {
			if n := count(f, f.asTenant(role, "acme"), table); n > 0 {
				t.Errorf("the %s of acme sees %d rows of %s", role, n, table)
			}
		}
		acme := f.tenant("acme")
		for _, change := range []string{"UPDATE %s SET %[2]s = %[2]s", "DELETE FROM %s"} {
			column := ask[string](f, "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::regclass AND "+
				"attnum = 1", table)
			statement := fmt.Sprintf(change+"%.0[2]s", table, column)
			if tag, err := acme.Exec(t.Context(), statement); err != nil || tag.RowsAffected() > 0 {
				t.Errorf("%s by acme: %v, %v", statement, tag, err)
			}
		}
	}
	for table, want := range map[string]int{"outbox_join": 1, "outbox_join_member": 2, "jobs_join": 1,
		"jobs_join_member": 2, "jobs_attempt": 3, "jobs_step": 3, "outbox_key_note": 0, "jobs_join_note": 0} {
		for _, role := range []string{"worker", "viewer"} {
			if n := count(f, f.asTenant(role, "globex"), table); n != want {
				t.Errorf("the %s of globex sees %d rows of %s, want %d", role, n, table, want)
			}
		}
	}

	mine := uuid.New()
	for _, role := range []string{"producer", "worker"} {
		acme := f.asTenant(role, "acme")
		f.exec(acme, "INSERT INTO outbox (id, topic, payload) VALUES ($1, 'acme.t', '')", mine)
		for _, insert := range []string{
			"INSERT INTO outbox_join (id, on_complete, expected, retention) VALUES (gen_random_uuid(), '{theirs}', 0, '1 hour')",
			"INSERT INTO outbox_join (id, on_fail, expected, retention) VALUES (gen_random_uuid(), '{theirs}', 0, '1 hour')",
			"INSERT INTO outbox_join_member (member_id, join_id) VALUES ('{mine}', '{join}')",
			"INSERT INTO outbox_join_member (member_id, join_id) VALUES ('{theirs}', gen_random_uuid())",
			"INSERT INTO outbox_join_note (member_id, gone) VALUES ('{theirs}', 1)",
		} {
			f.refuses(acme, forbidden, strings.NewReplacer("{theirs}", steps[0].String(), "{mine}", mine.String(),
				"{join}", id.String()).Replace(insert))
		}
		f.refuses(acme, forbidden, "INSERT INTO outbox_key_note (at, concurrency_key, limited, ended) VALUES (now(), "+
			"'globex.k', true, 1)")
		f.exec(f.db.Pool, "DELETE FROM outbox WHERE id = $1", mine)
	}
	acme := f.tenant("acme")
	f.exec(f.db.Pool, "INSERT INTO jobs_slot (job_id, queue) VALUES ($1, 'globex.q')", uuid.New())
	f.exec(f.db.Pool, "INSERT INTO jobs_start (queue, at, job_id, owner_token) VALUES ('globex.q', 0, $1, $1)",
		uuid.New())
	for _, change := range []string{"UPDATE jobs_queue SET paused = true", "DELETE FROM jobs_queue",
		"DELETE FROM jobs_slot", "UPDATE jobs_slot SET queue = 'acme.q'", "DELETE FROM jobs_start",
		"UPDATE jobs_start SET at = 0"} {
		if tag, err := acme.Exec(t.Context(), change); err != nil || tag.RowsAffected() > 0 {
			t.Errorf("%s by acme: %v, %v", change, tag, err)
		}
	}
	for _, change := range []string{"INSERT INTO jobs_queue (name, paused) VALUES ('globex.r', true)",
		"INSERT INTO jobs_slot (job_id, queue) SELECT gen_random_uuid(), 'globex.q'",
		"INSERT INTO jobs_start (queue, at, job_id, owner_token) " +
			"SELECT 'globex.q', 1, gen_random_uuid(), gen_random_uuid()"} {
		f.refuses(acme, forbidden, change)
	}
	f.refuses(acme, forbidden, "INSERT INTO jobs_attempt SELECT gen_random_uuid(), 1, now(), 'failed', 'forged'")
	f.refuses(acme, forbidden, "INSERT INTO jobs_step SELECT gen_random_uuid(), 'forged', ''")
	f.in(acme, func(ctx context.Context, tx workqueue.Tx) error {
		own, err := f.outbox.StartJoin(ctx, tx, outbox.Join{OnComplete: &outbox.Message{Topic: "acme.t"}})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SAVEPOINT s")
		must(t, err)
		_, err = tx.Exec(ctx, "UPDATE outbox_join SET on_complete = $1 WHERE id = $2", steps[0], own.ID)
		f.isRefused(forbidden, "a join that would continue a row of others", err)
		_, err = tx.Exec(ctx, "ROLLBACK TO s")
		return err
	})
}

// All see which topics are paused, and only who sees all rows changes it: a pause concerns the rows of all. That holds
// whether or not the side tables have their policies yet.
func TestTenantsObeyPausesAndChangeNone(t *testing.T) {
	for _, test := range []struct{ table, topic, other, row string }{
		{"outbox", "'globex.t'", "'acme.t'", "(topic, payload) SELECT tenant || '.t', ''"},
		{"inbox", "'globex.c', 't'", "'acme.c', 't'", "(consumer, source, message_id, topic, payload) " +
			"SELECT tenant || '.c', 's', i::text, 't', ''"},
	} {
		t.Run(test.table, func(t *testing.T) {
			f := newFixture(t)
			f.separate()
			acme := f.tenant("acme")
			refuses := func() {
				t.Helper()
				for _, call := range []string{"pause(" + test.topic, "pause(" + test.other, "resume(" + test.topic} {
					call = "SELECT " + test.table + "_" + call + ")"
					_, err := acme.Exec(t.Context(), call)
					f.isRefused(forbidden, call, err)
					if err != nil && !strings.Contains(err.Error(), "row-level security hides rows") {
						t.Errorf("%s: %v does not say why", call, err)
					}
				}
			}
			refuses() // the policies of the side table are missing
			f.follow()
			f.exec(f.db.Pool, "SELECT "+test.table+"_pause("+test.topic+"), "+test.table+"_pause("+test.other+")")
			refuses()
			state := test.table + "_topic"
			for _, change := range []string{"UPDATE %s SET paused = false", "DELETE FROM %s"} {
				statement := fmt.Sprintf(change, state)
				if tag, err := acme.Exec(t.Context(), statement); err != nil || tag.RowsAffected() > 0 {
					t.Errorf("%s by acme: %v, %v", statement, tag, err)
				}
			}
			f.refuses(acme, forbidden, "INSERT INTO "+state+" SELECT (jsonb_populate_record(s, "+
				"'{\"topic\": \"forged\"}')).* FROM "+state+" AS s LIMIT 1")
			if n := count(f, acme, state); n != 2 {
				t.Errorf("acme sees the state of %d topics, want both", n)
			}

			f.exec(f.db.Pool, "INSERT INTO "+test.table+" "+test.row+
				" FROM unnest(ARRAY['acme', 'globex']) AS u (tenant), generate_series(1, 3) AS g (i)")
			aside := func(pool *pgxpool.Pool) (all []int) {
				rows, err := pool.Query(t.Context(), "SELECT aside::int FROM "+test.table+
					"_topics() ORDER BY lane, topic")
				must(t, err)
				all, err = pgx.CollectRows(rows, pgx.RowTo[int])
				must(t, err)
				return all
			}
			lanes := ""
			if test.table == "inbox" {
				lanes = ", 'acme.c'"
			}
			f.exec(acme, "SELECT "+test.table+"_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10"+lanes+")")
			for pool, want := range map[*pgxpool.Pool][]int{acme: {3, 0}, f.db.Pool: {3, 0}} {
				if got := aside(pool); !slices.Equal(got, want) {
					t.Errorf("after a claim of acme %v rows are aside, want %v", got, want)
				}
			}
		})
	}
}

func count(f *fixture, pool *pgxpool.Pool, table string) (n int) {
	f.t.Helper()
	must(f.t, pool.QueryRow(f.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// Tenants do with their own rows all that is done without tenants, beside one process that sees all rows.
func TestTenantsFinishEverything(t *testing.T) {
	f := newFixture(t)
	f.separate()
	f.follow()
	ctx, stop := context.WithCancel(t.Context())
	var running []chan error
	start := func(run func(context.Context) error) {
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		running = append(running, done)
	}
	options := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
	f.exec(f.db.Pool, "INSERT INTO jobs_queue (name, max_running, rate, burst) SELECT tenant || '.q', 3, 100, 100 FROM "+
		"unnest(ARRAY['acme', 'globex']) AS u (tenant)")
	for _, tenant := range []string{"acme", "globex"} {
		f.fill(tenant)
		pool, topic, queue := f.tenant(tenant), tenant+".t", tenant+".q"
		relay, err := outbox.NewRelay(pool, f.outbox, outbox.RelayOptions{WorkerOptions: options})
		must(t, err)
		relay.Handle(topic, func(_ context.Context, m *outbox.Delivery) error {
			if m.Attempt == 1 {
				return workqueue.RetryNow(fmt.Errorf("once more"))
			}
			return nil
		})
		start(relay.Run)
		worker, err := jobs.NewWorker(pool, f.jobs, jobs.WorkerOptions{Registry: f.kinds, WorkerOptions: options,
			Queues: []jobs.QueueOptions{{Name: queue}}})
		must(t, err)
		start(worker.Run)
	}
	f.await("every row to be done", func() bool {
		f.exec(f.db.Pool, "SELECT outbox_fold_step(1000, NULL, 0), jobs_fold_step(1000, NULL, 0)") // as a process that sees all rows
		return ask[int](f, `SELECT ((SELECT count(*) FROM {schema}.outbox WHERE status <> 2)
			+ (SELECT count(*) FROM {schema}.jobs WHERE status <> 2)
			+ (SELECT count(*) FROM {schema}.outbox_join WHERE status <> 1)
			+ (SELECT count(*) FROM {schema}.jobs_join WHERE status <> 1)
			+ (SELECT count(*) FROM {schema}.jobs_slot))::int`) == 0
	})
	stop()
	for _, done := range running {
		must(t, <-done)
	}
	acme := f.tenant("acme")
	f.in(acme, func(ctx context.Context, tx workqueue.Tx) error {
		joins, err := f.outbox.Joins().List(ctx, tx, join.ListOptions{})
		if err == nil && (len(joins) != 1 || joins[0].Label != "acme label" || joins[0].Succeeded != 2) {
			t.Errorf("acme has the joins %+v", joins)
		}
		return err
	})
	f.exec(acme, "SELECT jobs_purge(1000, '0')")
	if n := ask[int](f, "SELECT count(DISTINCT a.job_id)::int FROM {schema}.jobs_attempt AS a"); n != 3 {
		t.Errorf("after acme has purged its jobs, there are attempts of %d jobs, want the 3 of globex", n)
	}
}

// Without row-level security there are no policies, whenever it was taken away.
func TestPoliciesGoWithRowLevelSecurity(t *testing.T) {
	f := newFixture(t)
	f.separate()
	f.follow()
	secured := func() int {
		return ask[int](f, "SELECT count(*)::int FROM pg_class AS c WHERE c.relnamespace = $1::regnamespace AND "+
			"c.relrowsecurity AND c.relname ~ '_(key_|join|attempt|step|queue|start|slot|topic)'", f.db.Schema)
	}
	if n := secured(); n != len(sides)+13 {
		t.Errorf("%d tables have row-level security, want all %d", n, len(sides)+13)
	}
	for _, table := range []string{"outbox", "inbox", "jobs", "letters"} {
		f.exec(f.db.Pool, "ALTER TABLE "+table+" DISABLE ROW LEVEL SECURITY")
	}
	f.follow()
	if n := secured(); n > 0 {
		t.Errorf("%d tables still have row-level security", n)
	}
	f.exec(f.as("worker"), "SELECT outbox_fold_step(1000, NULL, 0), jobs_fold_step(1000, NULL, 0), letters_fold_step(1000, NULL, 0)")
}
