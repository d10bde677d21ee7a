package writers

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// thumbnail is a kind of the tests.
type thumbnail struct {
	Picture string `json:"picture"`
}

func (thumbnail) Kind() string { return "thumbnail" }

// A pair is a row as Go writes it, and the call that writes the same.
type pair struct {
	table string
	write func(context.Context, workqueue.Tx) (uuid.UUID, error)
	call  string
}

// pairs are the rows of all domains.
func (f *fixture) pairs() map[string]pair {
	f.Helper()
	due := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	box := func(policy keyed.Policy, ordering outbox.Ordering, m outbox.Message) func(context.Context,
		workqueue.Tx) (uuid.UUID, error) {
		o, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: ordering, OnFailure: policy,
			Telemetry: quiet})
		f.ok(err)
		return func(ctx context.Context, tx workqueue.Tx) (uuid.UUID, error) {
			written, err := o.Enqueue(ctx, tx, m)
			return written.ID, err
		}
	}
	in, err := inbox.Open(inbox.Options{Schema: f.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: quiet})
	f.ok(err)
	receive := func(m inbox.Message) func(context.Context, workqueue.Tx) (uuid.UUID, error) {
		m.Consumer, m.Source, m.Payload = "c", "s", []byte(`{"a": 1}`)
		return func(ctx context.Context, tx workqueue.Tx) (uuid.UUID, error) {
			written, err := in.Receive(ctx, tx, m)
			return written.ID, err
		}
	}
	clock, err := timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	job := func(j jobs.Insert) func(context.Context, workqueue.Tx) (uuid.UUID, error) {
		j.Args = thumbnail{"cat.png"}
		return func(ctx context.Context, tx workqueue.Tx) (uuid.UUID, error) {
			written, err := client.Enqueue(ctx, tx, j)
			return written.ID, err
		}
	}
	return map[string]pair{
		"a message": {"outbox", box(0, outbox.Unordered, outbox.Message{Topic: "t", Payload: []byte("a")}),
			"outbox_enqueue('t', 'a')"},
		"a message with the history of another": {"outbox", box(0, outbox.Unordered, outbox.Message{Topic: "t",
			Headers: map[string]string{"txwork-lost-alone": "1", "txwork-lost-at": "2026-01-01T00:00:00Z"}}),
			`outbox_enqueue('t', '', headers => '{"txwork-lost-alone": "1", "txwork-lost-at": "2026-01-01T00:00:00Z"}')`},
		"a message with everything": {"outbox", box(0, outbox.Unordered, outbox.Message{Topic: "t", Key: "k",
			Payload: []byte("a"), Headers: map[string]string{"traceparent": "00-1-2-01", "a": `"\`}, ScheduledAt: due,
			MaxAttempts: 3, DedupKey: "only"}),
			`outbox_enqueue('t', 'a', key => 'k', ordered => false, headers => '{"traceparent": "00-1-2-01", "a": "\"\\"}',
				scheduled_at => '2040-01-02T03:04:05Z', max_attempts => 3, dedup_key => 'only')`},
		"an ordered message": {"outbox", box(keyed.Block, outbox.PerKey, outbox.Message{Topic: "t", Key: "k"}),
			"outbox_enqueue('t', '', key => 'k')"},
		"an ordered message that parks": {"outbox", box(keyed.Park, outbox.PerKey, outbox.Message{Topic: "t",
			Key: "k"}),
			"outbox_enqueue('t', '', key => 'k', on_failure => 'park')"},
		"an ordered message that skips": {"outbox", box(keyed.Skip, outbox.PerKey, outbox.Message{Topic: "t",
			Key: "k"}),
			"outbox_enqueue('t', '', key => 'k', on_failure => 'skip')"},
		"a message with an empty key": {"outbox", box(0, outbox.PerKey, outbox.Message{Topic: "t"}),
			"outbox_enqueue('t', '', key => '', dedup_key => '')"},
		"a received message": {"inbox", receive(inbox.Message{MessageID: "1"}),
			`inbox_receive('c', 's', '1', '{"a": 1}')`},
		"a received message with a topic": {"inbox", receive(inbox.Message{MessageID: "2", Topic: "t", ScheduledAt: due,
			MaxAttempts: 3}), `inbox_receive('c', 's', '2', '{"a": 1}', topic => 't', max_attempts => 3,
				scheduled_at => '2040-01-02T03:04:05Z')`},
		"a received message with a hash": {"inbox", receive(inbox.Message{MessageID: "3", BodyHash: make([]byte, 32)}),
			`inbox_receive('c', 's', '3', '{"a": 1}', body_hash => decode(repeat('00', 32), 'hex'))`},
		"a timer": {"timers", func(ctx context.Context, tx workqueue.Tx) (uuid.UUID, error) {
			written, err := clock.Set(ctx, tx, timers.Timer{Key: "k", Topic: "t", ScheduledAt: due,
				Payload: []byte("a"), Headers: map[string]string{"a": "b", "txwork-running": "1"}, MaxAttempts: 3})
			return written.ID, err
		}, `timers_set('k', 't', '2040-01-02T03:04:05Z', 'a', headers => '{"a": "b", "txwork-running": "1"}',
			max_attempts => 3)`},
		"a job": {"jobs", job(jobs.Insert{}), `jobs_enqueue('thumbnail', '{"picture":"cat.png"}')`},
		"a unique job": {"jobs", job(jobs.Insert{Queue: "q", Priority: jobs.High, MaxAttempts: 3,
			ScheduledAt: due, Headers: map[string]string{"a": "b"}, Unique: &jobs.Unique{Key: "only",
				While: jobs.WhileDone | jobs.WhileFailed}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', queue => 'q', priority => 1, max_attempts => 3,
				scheduled_at => '2040-01-02T03:04:05Z', headers => '{"a": "b"}', unique_key => 'only',
				unique_while => '{failed, done}')`},
		"a job that is unique while it is live": {"jobs", job(jobs.Insert{Unique: &jobs.Unique{Key: "live"}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', unique_key => 'live')`},
		"a job that is unique by fields": {"jobs", job(jobs.Insert{Unique: &jobs.Unique{
			Fields: map[string]any{"customer": 7, "price": 1.5, "name": "ü", "paid": true, "note": nil}}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', unique_fields =>
				'{"name": "\u00fc", "note": null, "price": 1.50, "customer": 70e-1, "paid": true}')`},
		"a job that is unique until it starts": {"jobs", job(jobs.Insert{Unique: &jobs.Unique{Key: "k",
			Until: jobs.UntilStart}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', unique_key => 'k', unique_until => 'start')`},
		"a job that is unique until it starts, in turn": {"jobs", job(jobs.Insert{Unique: &jobs.Unique{
			Fields: map[string]any{"a": 1}, Until: jobs.UntilStartInTurn}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', unique_fields => '{"a": 1}',
				unique_until => 'start_in_turn')`},
		"an ordered job": {"jobs", job(jobs.Insert{ByKey: keyed.Ordered{Key: "k", OnFailure: keyed.Park}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', ordered_key => 'k', on_failure => 'park')`},
		"a limited job": {"jobs", job(jobs.Insert{ByKey: keyed.Limited{Key: "k", MaxRunning: 3}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', limited_key => 'k', max_running => 3)`},
		"a job with a rate": {"jobs", job(jobs.Insert{ByKey: keyed.Limited{Key: "k", Rate: 2.5}}),
			`jobs_enqueue('thumbnail', '{"picture":"cat.png"}', limited_key => 'k', rate => 2.5)`},
		"a job with a rate and a burst": {"jobs", job(jobs.Insert{ByKey: keyed.Limited{Key: "k", MaxRunning: 1,
			Rate: 0.5, Burst: 7}}), `jobs_enqueue('thumbnail', '{"picture":"cat.png"}', limited_key => 'k',
				max_running => 1, rate => 0.5, burst => 7)`},
	}
}

// notByProducers are the columns that no enqueue writes, with what does.
var notByProducers = map[string]string{
	"outbox.joined":      "steps of a join",
	"jobs.joined":        "steps of a batch or a workflow",
	"jobs.schedule":      "a scheduler",
	"timers.schedule":    "a scheduler",
	"jobs.freed_key":     "a trigger, when the job fails",
	"jobs.slot":          "a claim",
	"jobs.trail":         "the first step of a job",
	"jobs.progress":      "a handler",
	"jobs.progress_note": "a handler",
	"jobs.output":        "a handler",
	"outbox.key_rate":    "nobody: messages have no limits",
	"outbox.key_burst":   "nobody: messages have no limits",
}

// Every column that producers write has a value in a pair, so that a new column does not go uncompared.
func TestEveryColumnIsInAPair(t *testing.T) {
	f := newFixture(t)
	written := map[string]bool{}
	for _, p := range f.pairs() {
		conn, err := f.db.Pool.Begin(t.Context())
		f.ok(err)
		id, err := p.write(t.Context(), workqueue.Pgx(conn))
		f.ok(err)
		for column, value := range f.row(conn, p.table, id) {
			written[p.table+"."+column] = written[p.table+"."+column] || value != "null"
			if column == "has a place" {
				written[p.table+".key_seq"] = written[p.table+".key_seq"] || value == "yes"
			}
		}
		f.ok(conn.Rollback(t.Context()))
	}
	for table, spec := range specs {
		for _, c := range spec.Columns {
			name := table + "." + c.Name
			if _, isNot := notByProducers[name]; written[name] == isNot {
				t.Errorf("%s: a pair writes it: %t. Add a pair to pairs that writes it in Go and by the SQL "+
					"function, or say in notByProducers what else writes it. See \"Add a column\" in docs/domains.md",
					name, written[name])
			}
		}
	}
}

// specs are those of the domains, by table.
var specs = map[string]workqueue.Spec{"outbox": outbox.Spec(""), "inbox": inbox.Spec(""), "timers": timers.Spec(""),
	"jobs": jobs.Spec("")}

// differ are the columns that differ between any two rows.
var differ = []string{"id", "created_at", "key_seq"}

// A row that a function writes is the row that Go writes, column by column. Unique values that Go took are taken.
func TestRowsAreThoseOfGo(t *testing.T) {
	f := newFixture(t)
	for name, p := range f.pairs() {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			conn, err := f.db.Pool.Begin(t.Context())
			f.ok(err)
			defer conn.Rollback(context.WithoutCancel(t.Context()))
			written, err := p.write(t.Context(), workqueue.Pgx(conn))
			f.ok(err)
			want := f.row(conn, p.table, written)
			id, duplicate := f.call(conn, p.call)
			if unique := hasUnique(want); duplicate != unique || unique && id != written {
				t.Fatalf("the call returns %v, %t", id, duplicate)
			}
			_, err = conn.Exec(t.Context(), f.in("DELETE FROM txwork.")+p.table)
			f.ok(err)

			if id, duplicate = f.call(conn, p.call); duplicate || id.Version() != 7 {
				t.Errorf("the call returns %v, %t", id, duplicate)
			}
			got := f.row(conn, p.table, id)
			for column, value := range want {
				if got[column] != value {
					t.Errorf("%s is %s, want %s", column, got[column], value)
				}
			}
		})
	}
}

// hasUnique reports whether a row has values that no other may have.
func hasUnique(row map[string]string) bool {
	for _, column := range []string{"dedup_key", "message_id", "unique_key", "generation"} {
		if v, ok := row[column]; ok && v != "null" {
			return true
		}
	}
	return false
}

// call calls a function of the test's schema.
func (f *fixture) call(tx pgx.Tx, call string) (id uuid.UUID, duplicate bool) {
	f.Helper()
	f.ok(tx.QueryRow(f.Context(), "SELECT id, duplicate FROM "+f.db.Schema+"."+call).Scan(&id, &duplicate))
	return id, duplicate
}

// row returns the columns of a row that do not differ between any two.
func (f *fixture) row(tx pgx.Tx, table string, id uuid.UUID) map[string]string {
	f.Helper()
	var text []byte
	query := f.in("SELECT row_to_json(t) FROM txwork.") + table + " AS t WHERE id = $1"
	f.ok(tx.QueryRow(f.Context(), query, id).Scan(&text))
	var raw map[string]json.RawMessage
	f.ok(json.Unmarshal(text, &raw))
	row := map[string]string{"has a place": "no"}
	for column, value := range raw {
		row[column] = string(value)
	}
	if seq, ok := row["key_seq"]; ok && seq != "null" {
		row["has a place"] = "yes"
	}
	maps.DeleteFunc(row, func(column, _ string) bool { return slices.Contains(differ, column) })
	return row
}

// Messages of a key are delivered in the order in which they were committed, whether SQL or Go wrote them.
func TestKeysAreOrdered(t *testing.T) {
	f := newFixture(t)
	box, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: outbox.PerKey, Telemetry: quiet})
	f.ok(err)
	var want []string
	for i := range 9 {
		text := strings.Repeat("i", i+1)
		want = append(want, text)
		if i%3 == 1 {
			f.ok(pgx.BeginFunc(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
				_, err := box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t", Key: "k",
					Payload: []byte(text)})
				return err
			}))
			continue
		}
		f.one("txwork.outbox_enqueue('t', $1::text, key => 'k')", text)
	}
	// Without order these would be delivered in the reverse order.
	_, err = f.db.Pool.Exec(t.Context(), f.in("UPDATE txwork.outbox SET due_at = due_at - key_seq * interval '1 hour'"))
	f.ok(err)
	if got := f.run("outbox"); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("delivered %v", got)
	}
}

// The writers of a key take turns, so that the order is that of their commits.
func TestWritersOfAKeyTakeTurns(t *testing.T) {
	f := newFixture(t)
	for _, call := range []string{"txwork.outbox_enqueue('t', '', key => 'k')",
		`txwork.jobs_enqueue('echo', '{}', ordered_key => 'k')`} {
		first, err := f.db.Pool.Begin(t.Context())
		f.ok(err)
		_, err = first.Exec(t.Context(), f.in("SELECT "+call))
		f.ok(err)
		err = pgx.BeginFunc(t.Context(), f.db.Pool, func(second pgx.Tx) error {
			if _, err := second.Exec(t.Context(), "SET LOCAL lock_timeout = '10ms'"); err != nil {
				return err
			}
			_, err := second.Exec(t.Context(), f.in("SELECT "+call))
			return err
		})
		if postgres.State(err) != "55P03" {
			t.Errorf("%s beside another writer of the key: %v", call, err)
		}
		f.ok(first.Rollback(t.Context()))
	}
}

// What an INSERT by hand does with a key: without the columns that order it, the row is not ordered; with the key alone
// it is refused.
func TestAnInsertByHandIsOrderedByItsColumns(t *testing.T) {
	f := newFixture(t)
	insert := func(columns, values string) error {
		_, err := f.db.Pool.Exec(t.Context(), f.in("INSERT INTO txwork.outbox (topic, payload, "+columns+
			") VALUES ('t', convert_to('x', 'UTF8'), "+values+")"))
		return err
	}
	f.ok(insert("key", "'k'"))
	if err := insert("key, concurrency_key", "'k', 'k'"); postgres.State(err) != "23514" {
		t.Errorf("a key without its rule: %v", err)
	}
	f.ok(insert("key, concurrency_key, key_limit, key_policy", "'k', 'k', 0, 1"))
	if n := ask[int](f, "SELECT count(*) FROM txwork.outbox WHERE waiting AND key_seq IS NOT NULL"); n != 1 {
		t.Errorf("%d rows are ordered, want 1", n)
	}
}
