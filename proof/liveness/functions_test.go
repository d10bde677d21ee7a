package liveness

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// The holders are clients that have called a function of the protocol, and stay in their transaction, as those of
// drivers do that begin one with every statement.
func TestFunctions(t *testing.T) {
	t.Parallel()
	half := (len(functions()) + 1) / 2
	for i := range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if i == 0 {
				w.everyFunctionIsHeld(t)
			}
			w.besideEach(t, w.populate(), func(*world) []holder {
				all := slices.Collect(slices.Chunk(functions(), half))
				return all[i]
			})
		})
	}
}

// elsewhere are functions that no program calls in a transaction of its own, or whose holders are in [TestMaintenance].
var elsewhere = regexp.MustCompile(`_(claim_by_topic|claim_admitted|settle_rows|policies|each|fold_step|maintain_step` +
	`|admit|spans|starts|permit|take|give_start|chain_key|unique_hash|(key|join)_[a-z]+|purge|reap_expired|strip` +
	`|slot_sweep)$|^leader_note$|^history_merge$` +
	// as of other tables
	`|^[a-z]+_schedule_(fetch|settle|ack|retry|release|snooze|wait_until|fail|extend|complete|run_now|reschedule|redrive` +
	`|cancel|discard|delete|stats)$`)

// everyFunctionIsHeld checks that the functions of the catalogue have holders.
func (w *world) everyFunctionIsHeld(t *testing.T) {
	t.Helper()
	held := map[string]bool{}
	for _, c := range calls() {
		for _, name := range regexp.MustCompile(`\$S\.(\w+)`).FindAllStringSubmatch(strings.Join(c.sql, " "), -1) {
			held[name[1]] = true
		}
	}
	for _, name := range w.list(`SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = $1::regnamespace
		AND prorettype <> 'trigger'::regtype AND prokind = 'f' ORDER BY 1`, w.Schema) {
		if !held[name] && !elsewhere.MatchString(name) {
			t.Errorf("no client stays in its transaction after it has called %s: add it to calls", name)
		}
	}
}

// A called is what a client calls: statements in which p.token and p.ids stand for the claim of a row, or its name, and
// $S for the schema. The row is in a table, in a state.
type called struct {
	table, state string
	sql          []string
}

const (
	ready   = "ready"
	claimed = "claimed"
	failed  = "failed"
)

// calls are those after which a client stays in its transaction.
func calls() (all []called) {
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		for _, c := range []struct{ state, call string }{
			{claimed, "settle((SELECT jsonb_agg(jsonb_build_object('id', i, 'token', p.token, 'outcome', 'retry')) " +
				"FROM unnest(p.ids) AS i))"},
			{claimed, "settle((SELECT jsonb_agg(jsonb_build_object('id', i, 'token', p.token, 'outcome', 'unavailable')) " +
				"FROM unnest(p.ids) AS i))"},
			{claimed, "ack(p.token, p.ids)"}, {claimed, "retry(p.token, p.ids)"}, {claimed, "release(p.token, p.ids)"},
			{claimed, "snooze(p.token, p.ids, '1 hour')"}, {claimed, "fail(p.token, p.ids, 'no')"},
			{claimed, "wait_until(p.token, p.ids, now() + interval '1 hour')"},
			{claimed, "extend(p.token, p.ids, '1 hour')"}, {claimed, "complete(p.token, p.ids[1])"},
			{claimed, "cancel(p.ids, 'held')"}, {ready, "cancel(p.ids, 'held')"}, {ready, "run_now(p.ids)"},
			{ready, "reschedule(p.ids, now() + interval '2 hours')"}, {failed, "redrive(p.ids)"},
			{failed, "discard(p.ids, 'held')"}, {failed, "delete(p.ids)"},
		} {
			all = append(all, called{table: table, state: c.state, sql: []string{"$S." + table + "_" + c.call}})
		}
	}
	all = append(all,
		// Rows that the client has written itself are not taken by the world's workers before.
		called{sql: []string{"$S.outbox_enqueue('topic', 'held'::text)", "$S.outbox_fetch(p.token, '1 hour', 2)"}},
		called{sql: []string{"$S.timers_set('fetched', 'topic', now(), 'held'::text)",
			"$S.timers_fetch(p.token, '1 hour', 2)"}},
		called{sql: []string{"$S.jobs_enqueue('work', '{}'::text, queue => 'capped')",
			"$S.jobs_fetch(p.token, '1 hour', 2, 'capped')"}},
		called{table: "outbox", state: failed, sql: []string{"$S.outbox_unblock(p.ids)"}},
		called{table: "jobs", state: failed, sql: []string{"$S.jobs_unblock(p.ids)"}},
		called{table: "inbox", state: ready, sql: []string{"$S.inbox_fetch(p.token, '1 hour', 2, 'idle')"}},
		called{table: "jobs", state: ready, sql: []string{"$S.jobs_fetch(p.token, '1 hour', 2, 'idle')"}},
		called{table: "jobs", state: claimed, sql: []string{"$S.jobs_steps(p.token, p.ids[1])"}},
		called{table: "jobs", state: claimed, sql: []string{"$S.jobs_put_step(p.token, p.ids[1], 'one', '1'::jsonb)"}},
		called{table: "jobs", state: claimed, sql: []string{"$S.jobs_progress(p.token, p.ids[1], 50)"}},
		called{table: "jobs", state: claimed, sql: []string{"$S.jobs_output(p.token, p.ids[1], '1'::jsonb)"}},
		called{table: "jobs", state: claimed, sql: []string{"$S.jobs_complete(p.token, p.ids[1], '1'::jsonb)"}},
	)
	for _, sql := range []string{
		"$S.outbox_enqueue('topic', 'held'::text, 'key of a client')",
		`$S.outbox_enqueue_many('[{"topic": "topic", "payload": 1, "key": "keys of a client"}, {"topic": "t", "payload": 1}]')`,
		"$S.outbox_pause('held')", "$S.outbox_resume('paused')", "$S.outbox_topics()",
		"$S.inbox_receive('consumer', 'a', 'of a client', 'held'::text)",
		`$S.inbox_receive_many('[{"consumer": "consumer", "source": "a", "message_id": "many of a client", "payload": 1}]')`,
		"$S.inbox_begin('Process', 'a', 'begun by a client')",
		"$S.inbox_pause('idle', 'held')", "$S.inbox_resume('consumer', 'paused')", "$S.inbox_topics()",
		"$S.timers_set('of a client', 'topic', now(), 'held'::text)",
		`$S.timers_set_many('[{"key": "many of a client", "topic": "topic", "payload": 1, "scheduled_at": "2026-01-01"}]')`,
		"$S.timers_set('later', 'topic', now(), 'held'::text)", "$S.timers_cancel(ARRAY['later'])", "$S.timers_get('later')",
		"$S.jobs_enqueue('work', '{}'::text, unique_key => 'of a client', limited_key => 'shared', max_running => 10)",
		"$S.jobs_enqueue('work', '{}'::text, ordered_key => 'key of a client')",
		`$S.jobs_enqueue_many('[{"kind": "work", "args": {}, "ordered_key": "keys of a client"}]')`,
		"$S.jobs_pause('idle')", "$S.jobs_pause('capped')", "$S.jobs_resume('capped')", "$S.jobs_limit('idle', 5)",
		"$S.jobs_limit('capped', 100, 100000)",
		`$S.outbox_start_join('[{"topic": "topic", "payload": 1}]')`, `$S.jobs_start_batch('[{"kind": "work", "args": {}}]')`,
		"$S.timers_schedule_pause('populated')", "$S.timers_schedule_resume('populated')",
		"$S.timers_schedule_trigger('populated')", "$S.jobs_schedule_pause('populated')",
		"$S.jobs_schedule_resume('populated')", "$S.jobs_schedule_trigger('populated')",
		"$S.outbox_stats()", "$S.inbox_stats()", "$S.timers_stats()", "$S.jobs_stats()",
		"$S.protocol()", "$S.require(1, 0)", "$S.owner_token(1)",
		"CALL $S.outbox_fold()", "CALL $S.jobs_fold()", "CALL $S.jobs_maintain(1000, '1 hour', '1 hour')",
	} {
		all = append(all, called{sql: []string{sql}})
	}
	return all
}

// What clients share on purpose: whoever needs the same row, key or value waits until the client's transaction ends.
func TestWhatClientsShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const replace = "LATERAL (SELECT e FROM $S.jobs AS j, $S.jobs_enqueue('work', '{}'::text, on_conflict => 'replace', " +
		"unique_key => split_part(j.unique_key, chr(31), 2)) AS e WHERE j.id = ANY (p.ids))"
	for _, c := range []struct {
		name  string
		held  called
		waits string
	}{
		{"an ordered key", called{sql: []string{"$S.outbox_enqueue('topic', 'held'::text, 'shared')"}},
			"$S.outbox_enqueue('topic', 'held'::text, 'shared')"},
		{"a unique key", called{sql: []string{"$S.jobs_enqueue('work', '{}'::text, unique_key => 'shared')"}},
			"$S.jobs_enqueue('work', '{}'::text, unique_key => 'shared')"},
		{"a unique key that is freed", called{table: "jobs", state: claimed,
			sql: []string{"$S.jobs_ack(p.token, p.ids)"}}, replace},
		{"a job that is fetched", called{table: "jobs", state: ready,
			sql: []string{"$S.jobs_fetch(p.token, '1 hour', 100, 'idle')"}}, replace},
		{"a message id", called{sql: []string{"$S.inbox_receive('idle', 'a', 'shared', 'held'::text)"}},
			"$S.inbox_receive('idle', 'a', 'shared', 'held'::text)"},
		{"a timer", called{sql: []string{"$S.timers_set('shared', 'topic', now(), 'held'::text)"}},
			"$S.timers_set('shared', 'topic', now(), 'held'::text)"},
		{"a row", called{table: "jobs", state: claimed, sql: []string{"$S.jobs_retry(p.token, p.ids)"}},
			"$S.jobs_cancel(p.ids, 'no more')"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			token, ids, forget := w.rowsOfClient(c.held)
			release := w.afterCall(c.held, token, ids)
			waits := func(patience string) error {
				return pgx.BeginFunc(t.Context(), w.Pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "SELECT set_config('lock_timeout', $1, true)", patience)
					w.ok(err)
					_, err = w.calls(tx, c.waits, token, ids)
					return err
				})
			}
			var refused *pgconn.PgError
			if err := waits("100ms"); !errors.As(err, &refused) || refused.Code != "55P03" {
				t.Errorf("another client gets %v, want that it waits", err)
			}
			release()
			w.ok(waits("0"))
			forget()
		})
	}
}

// functions are the holders.
func functions() (holders []holder) {
	for _, c := range calls() {
		name, _, _ := strings.Cut(strings.ReplaceAll(c.sql[len(c.sql)-1], "$S.", ""), "(SELECT")
		if c.state != "" {
			name = strings.TrimSpace(name + " of a row that is " + c.state)
		}
		if strings.Contains(c.sql[0], "'unavailable'") {
			name += ", as unavailable"
		}
		holders = append(holders, holder{name, func(w *world) func() {
			token, ids, forget := w.rowsOfClient(c)
			release := w.afterCall(c, token, ids)
			return func() { release(); forget() }
		}})
	}
	return append(holders, holder{"outbox_fetch that has a probe", fetchesProbe})
}

// fetchesProbe fetches the probe of a topic whose rest is over. Its message is the client's own, and no other worker's.
// The first fetch sets it aside.
func fetchesProbe(w *world) func() {
	w.exec("INSERT INTO " + w.Schema + ".outbox_topic (topic, unavailable_since, rests_until, rest, cause) " +
		"VALUES ('away', now(), now(), '1 s', 'it is away')")
	const fetch = "$S.outbox_fetch(p.token, '1 hour', 2, sweep => true)"
	release := w.afterCall(called{sql: []string{"$S.outbox_enqueue('away', 'held'::text)", fetch, fetch,
		"(SELECT t.probe FROM $S.outbox_topic AS t WHERE t.topic = 'away' AND t.probe IS NOT NULL)"}},
		workqueue.NewOwnerToken(), nil)
	return func() {
		release()
		w.exec("DELETE FROM " + w.Schema + ".outbox_topic WHERE topic = 'away'")
	}
}

// afterCall calls, and leaves the transaction open. A session of a settle would be ended after a minute, which is taken
// back: bystanders must not need it.
func (w *world) afterCall(c called, token uuid.UUID, ids []uuid.UUID) (release func()) {
	w.Helper()
	ctx := w.Context()
	tx, err := w.Pool.Begin(ctx)
	w.ok(err)
	for _, sql := range c.sql {
		if strings.HasPrefix(sql, "CALL ") { // it is refused, and the client goes on
			part, err := tx.Begin(ctx)
			w.ok(err)
			if _, err = part.Exec(ctx, strings.ReplaceAll(sql, "$S.", w.Schema+".")); err == nil {
				w.Errorf("%s runs in a transaction", sql)
			}
			w.ok(part.Rollback(ctx))
			continue
		}
		rows, err := w.calls(tx, sql, token, ids)
		w.ok(err)
		if rows == 0 && !strings.Contains(sql, "_topics(") && !strings.Contains(sql, "_steps(") {
			w.Errorf("%s returns nothing", sql)
		}
	}
	_, err = tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	w.ok(err)
	end := sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			w.Errorf("the client's transaction: %v", err)
		}
	})
	w.Cleanup(end)
	return end
}

// calls calls a function for the claim of rows, and counts what it returns.
func (w *world) calls(tx pgx.Tx, sql string, token uuid.UUID, ids []uuid.UUID) (rows int, err error) {
	err = tx.QueryRow(w.Context(), "SELECT count(c) FROM (SELECT $1::uuid AS token, $2::uuid[] AS ids) AS p, "+
		strings.ReplaceAll(sql, "$S.", w.Schema+".")+" AS c", token, ids).Scan(&rows)
	return rows, err
}

// rowsOfClient are rows with which the world's workers have nothing to do. A message has an ordered key, a job a
// limited and a unique one.
func (w *world) rowsOfClient(c called) (token uuid.UUID, ids []uuid.UUID, forget func()) {
	token = workqueue.NewOwnerToken()
	if c.table == "" {
		return token, nil, func() {}
	}
	ctx, name := w.Context(), uuid.NewString()
	w.inTx(func(tx workqueue.Tx) error {
		var all []workqueue.Enqueued
		var err error
		switch c.table {
		case "outbox":
			all, err = w.outbox.EnqueueMany(ctx, tx, outbox.Message{Topic: topic, Key: name,
				ScheduledAt: time.Now().Add(time.Hour)})
		case "timers":
			all, err = w.timers.SetMany(ctx, tx, timers.Timer{Key: name, Topic: topic, Delay: time.Hour})
		case "inbox":
			var received []inbox.Result
			received, err = w.inbox.ReceiveMany(ctx, tx, inbox.Message{Consumer: idle, Source: "a", MessageID: name})
			ids = append(ids, received[0].ID)
		case "jobs":
			all, err = w.jobs.EnqueueMany(ctx, tx, jobs.Insert{Args: work{"held"}, Queue: idle, ByKey: sharedKey,
				Unique: &jobs.Unique{Key: name}})
		}
		ids = append(ids, workqueue.IDs(all)...)
		return err
	})
	table := w.Schema + "." + c.table
	if c.table == "outbox" || c.table == "jobs" {
		w.ok(w.until(ctx, "its key lets the row go", "SELECT NOT waiting FROM "+table+" WHERE id = $1", ids[0]))
	}
	if c.state != ready {
		w.exec("UPDATE "+table+" SET status = 1, attempts = 1, owner_token = $1, locked_until = now() + interval '1 hour' "+
			"WHERE id = ANY ($2)", token, ids)
	}
	if c.state == failed {
		w.exec("SELECT "+table+"_fail($1, $2, 'failed')", token, ids)
	}
	return token, ids, func() {
		w.exec("SELECT "+table+"_ack($1, $2)", token, ids)
		w.exec("SELECT "+table+"_cancel($1, 'it has been held')", ids)
	}
}

// fetched is the work of another client in SQL.
func fetched(ctx context.Context, w *world, name string) error {
	queue := fmt.Sprintf("%.60s", uuid.NewSHA1(uuid.Nil, []byte(name)))
	ids, err := w.enqueue(ctx, 3, name, jobs.Insert{Queue: queue})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		token := workqueue.NewOwnerToken()
		taken, err := w.Pool.Query(ctx, "SELECT id FROM "+w.Schema+".jobs_fetch($1, '1 minute', 2, $2) WHERE entry = 'row'",
			token, queue)
		if err != nil {
			return err
		}
		some, err := pgx.CollectRows(taken, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		if _, err := w.Pool.Exec(ctx, "SELECT "+w.Schema+".jobs_ack($1, $2, true)", token, some); err != nil {
			return err
		}
	}
	return w.ended(ctx, "jobs", workqueue.Done, ids...)
}
