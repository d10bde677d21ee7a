package writers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A started is what starts a join returns, in Go and in SQL.
type started struct {
	id                 uuid.UUID
	steps              []uuid.UUID
	onComplete, onFail *uuid.UUID
}

// start calls the function that starts joins of a table.
func (f *fixture) start(tx pgx.Tx, call string, args ...any) (s started, err error) {
	f.Helper()
	step := "step"
	if strings.HasPrefix(call, "jobs") {
		step = "job"
	}
	err = tx.QueryRow(f.Context(), "SELECT id, "+step+"_ids, on_complete_id, on_fail_id FROM "+f.db.Schema+"."+call,
		args...).Scan(&s.id, &s.steps, &s.onComplete, &s.onFail)
	return s, err
}

// begun starts a join in a transaction of its own.
func (f *fixture) begun(call string, args ...any) (s started) {
	f.Helper()
	f.ok(pgx.BeginFunc(f.Context(), f.db.Pool, func(tx pgx.Tx) (err error) {
		s, err = f.start(tx, call, args...)
		return err
	}))
	return s
}

// written is everything that a join has written: the join, its memberships, and the rows in their roles, without what
// differs between any two.
func (f *fixture) written(tx pgx.Tx, table string, s started) map[string]string {
	f.Helper()
	var text string
	f.ok(tx.QueryRow(f.Context(), f.in(`SELECT concat_ws(' ', j.status, j.policy, j.expected, j.succeeded, j.failed,
			j.on_complete IS NOT DISTINCT FROM $2, j.on_fail IS NOT DISTINCT FROM $3,
			to_char(j.deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), j.label, j.look_at - j.created_at,
			j.retention, (SELECT count(*) FROM txwork.`+table+`_join_member AS m WHERE m.join_id = j.id
				AND m.member_id = ANY ($4) AND m.outcome IS NULL))
		FROM txwork.`+table+`_join AS j WHERE j.id = $1`), s.id, s.onComplete, s.onFail, s.steps).Scan(&text))
	all := map[string]string{"join": text}
	f.ok(tx.QueryRow(f.Context(), f.in("SELECT coalesce(string_agg(concat_ws(' ', at > now(), member_id, gone, "+
		"join_id = $1), ','), '') FROM txwork."+table+"_join_note"), s.id).Scan(&text))
	all["notes"] = text
	add := func(role string, id *uuid.UUID) {
		if id == nil {
			return
		}
		for column, value := range f.row(tx, table, *id) {
			all[role+" "+column] = strings.ReplaceAll(value, s.id.String(), "the join's id")
		}
	}
	for i := range s.steps {
		add(fmt.Sprint("step ", i), &s.steps[i])
	}
	add("on complete", s.onComplete)
	add("on fail", s.onFail)
	return all
}

// A join that is started in SQL has the rows of one that is started in Go, column by column.
func TestJoinsAreThoseOfGo(t *testing.T) {
	f := newFixture(t)
	due := time.Date(2040, 1, 2, 3, 4, 5, 6000, time.UTC)
	optional := func(id uuid.UUID) *uuid.UUID {
		if id == uuid.Nil {
			return nil
		}
		return &id
	}
	inGo := func(ordering outbox.Ordering, j outbox.Join) func(workqueue.Tx) started {
		box, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: ordering, Telemetry: quiet})
		f.ok(err)
		return func(tx workqueue.Tx) started {
			s, err := box.StartJoin(t.Context(), tx, j)
			f.ok(err)
			return started{s.ID, s.Steps, optional(s.OnComplete), optional(s.OnFail)}
		}
	}
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	batch := func(b jobs.Batch) func(workqueue.Tx) started {
		return func(tx workqueue.Tx) started {
			s, err := client.StartBatch(t.Context(), tx, b)
			f.ok(err)
			return started{s.ID, s.Jobs, optional(s.OnComplete), optional(s.OnFail)}
		}
	}
	step := outbox.Message{Topic: "t", Payload: []byte("1"), Key: "k", Headers: map[string]string{"a": "b"}}
	picture := thumbnail{"cat.png"}
	for name, c := range map[string]struct {
		start func(workqueue.Tx) started
		call  string
	}{
		"a join": {inGo(outbox.Unordered, outbox.Join{Steps: []outbox.Message{{Topic: "t", Payload: []byte("1")}},
			OnComplete: &outbox.Message{Topic: "all", Payload: []byte("2")}}),
			`outbox_start_join('[{"topic": "t", "payload": 1}]', '{"topic": "all", "payload": 2}')`},
		"a join without steps": {inGo(outbox.Unordered, outbox.Join{OnFail: &outbox.Message{Topic: "none"}}),
			`outbox_start_join('[]', 'null', '{"topic": "none", "payload_text": ""}')`},
		"a join with everything": {inGo(outbox.PerKey, outbox.Join{Label: "nightly",
			Steps:      []outbox.Message{step, {Topic: "u", ScheduledAt: due, MaxAttempts: 3, Payload: []byte{0}}},
			OnComplete: &outbox.Message{Topic: "all", Key: "k"},
			OnFail:     &outbox.Message{Topic: "none", ScheduledAt: due},
			Policy:     join.AnyOutcome, Deadline: due}),
			`outbox_start_join('[{"topic": "t", "payload": 1, "key": "k", "headers": {"a": "b"}},
				{"topic": "u", "payload_base64": "AA==", "scheduled_at": "2040-01-02T03:04:05.000006Z", "max_attempts": 3}]',
				on_complete => '{"topic": "all", "key": "k", "payload_text": ""}',
				on_fail => '{"topic": "none", "payload_text": "", "scheduled_at": "2040-01-02T03:04:05.000006Z"}',
				policy => 'any_outcome', deadline => '2040-01-02 03:04:05.000006Z', label => 'nightly')`},
		"a batch": {batch(jobs.Batch{Jobs: []jobs.Insert{{Args: picture}, {Args: picture, Priority: jobs.High,
			Headers: map[string]string{"a": "b"}, ByKey: keyed.Limited{Key: "k", MaxRunning: 2}}},
			OnComplete: &jobs.Insert{Args: picture, Queue: "q"}, OnFail: &jobs.Insert{Args: picture},
			Policy: join.FailFast}),
			`jobs_start_batch('[{"kind": "thumbnail", "args_text": "{\"picture\":\"cat.png\"}"},
				{"kind": "thumbnail", "args_text": "{\"picture\":\"cat.png\"}", "priority": 1, "headers": {"a": "b"},
					"limited_key": "k", "max_running": 2}]',
				'{"kind": "thumbnail", "args_text": "{\"picture\":\"cat.png\"}", "queue": "q"}',
				'{"kind": "thumbnail", "args_text": "{\"picture\":\"cat.png\"}"}', 'fail_fast')`},
		"a batch without jobs": {batch(jobs.Batch{OnComplete: &jobs.Insert{Args: picture}}),
			`jobs_start_batch('[]', '{"kind": "thumbnail", "args_text": "{\"picture\":\"cat.png\"}"}')`},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			table, _, _ := strings.Cut(c.call, "_")
			var want, got map[string]string
			both, err := f.db.Pool.Begin(t.Context()) // so that now() is the same
			f.ok(err)
			defer both.Rollback(context.WithoutCancel(t.Context()))
			in := func(do func(pgx.Tx)) {
				tx, err := both.Begin(t.Context())
				f.ok(err)
				do(tx)
				f.ok(tx.Rollback(t.Context()))
			}
			in(func(tx pgx.Tx) { want = f.written(tx, table, c.start(workqueue.Pgx(tx))) })
			in(func(tx pgx.Tx) {
				s, err := f.start(tx, c.call)
				f.ok(err)
				if s.id.Version() != 7 || !slices.IsSortedFunc(s.steps, func(a, b uuid.UUID) int {
					return strings.Compare(a.String(), b.String())
				}) {
					t.Errorf("the ids are %v, %v", s.id, s.steps)
				}
				got = f.written(tx, table, s)
			})
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got[name] != want[name] {
					t.Errorf("%s is %s, want %s", name, got[name], want[name])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d values, want %d", len(got), len(want))
			}
		})
	}
}

// outcomes are policies, with what steps do, and the continuation that runs then.
var outcomes = []struct{ policy, steps, deadline, want string }{
	{"wait_all", "ok ok", "NULL", "complete"},
	{"wait_all", "ok fails", "NULL", "fail"},
	{"wait_all", "ok later", "NULL", ""},
	{"wait_all", "ok later", "now()", "fail"},
	{"wait_all", "", "NULL", "complete"},
	{"fail_fast", "ok ok", "NULL", "complete"},
	{"fail_fast", "fails later", "NULL", "fail"},
	{"any_outcome", "fails ok", "NULL", "complete"},
	{"any_outcome", "fails later", "NULL", ""},
	{"any_outcome", "fails later", "now()", "fail"},
}

// A join that is started in SQL ends as its policy, its deadline and its steps have it, run by workers in Go.
func TestJoinsFromSQLEnd(t *testing.T) {
	f := newFixture(t)
	f.handled.fails = "fails"
	for _, table := range []string{"outbox", "jobs"} {
		for _, c := range outcomes {
			row := func(text, more string) string {
				if table == "jobs" {
					return fmt.Sprintf(`{"kind": "echo", "args": "%s"%s}`, text, more)
				}
				return fmt.Sprintf(`{"topic": "t", "payload_text": "\"%s\""%s}`, text, more)
			}
			steps := []string{}
			for step := range strings.FieldsSeq(c.steps) {
				more := ""
				if step == "later" {
					more = `, "scheduled_at": "2040-01-01"`
				}
				steps = append(steps, row(step, more))
			}
			call := map[string]string{"outbox": "outbox_start_join", "jobs": "jobs_start_batch"}[table]
			s := f.begun(fmt.Sprintf("%s('[%s]', '%s', '%s', '%s', %s)", call, strings.Join(steps, ","),
				row("complete", ""), row("fail", ""), c.policy, c.deadline))
			var ran []string
			for range 3 { // the deadline's fold comes with the next drain
				ran = append(ran, f.run(table)...)
			}
			ran = slices.DeleteFunc(ran, func(s string) bool { return !slices.Contains([]string{`"complete"`, `"fail"`}, s) })
			if got := strings.Trim(strings.Join(ran, " "), `"`); got != c.want {
				t.Errorf("%s, %+v: the continuation %q ran", table, c, got)
			}
			status := ask[int](f, "SELECT status FROM txwork."+table+"_join WHERE id = $1", s.id)
			if want := map[string]int{"": 0, "complete": 1, "fail": 2}[c.want]; status != want {
				t.Errorf("%s, %+v: the join has the status %d, want %d", table, c, status, want)
			}
			_, err := f.db.Pool.Exec(t.Context(), f.in("DELETE FROM txwork."+table))
			f.ok(err)
		}
	}
}

// A worker that waits is woken by the join, by its steps and by its end, and knows the batch.
func TestAWorkerRunsAJoinFromSQL(t *testing.T) {
	f := newFixture(t)
	kinds := jobs.NewRegistry()
	ended := make(chan string, 1)
	jobs.Register(kinds, func(ctx context.Context, job *jobs.Job[echo]) error {
		if string(job.Args.text) != `"complete"` {
			return nil
		}
		found, err := job.Dependencies(ctx)
		ended <- fmt.Sprint(job.BatchID(), " ", len(found))
		return err
	}, jobs.KindOptions[echo]{})
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Registry: kinds, Telemetry: quiet})
	f.ok(err)
	worker, err := jobs.NewWorker(f.db.Pool, client, jobs.WorkerOptions{})
	f.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	defer func() {
		cancel()
		f.ok(<-stopped)
	}()
	s := f.begun(`jobs_start_batch('[{"kind": "echo", "args": 1}, {"kind": "echo", "args": 2}]',
		'{"kind": "echo", "args": "complete"}')`)
	if got, want := <-ended, fmt.Sprint(s.id, " ", 2); got != want {
		t.Errorf("the continuation finds %q, want %q", got, want)
	}
}

// What is refused is told with its parameter and its place, and nothing is written.
func TestJoinsAreCheckedFirst(t *testing.T) {
	f := newFixture(t)
	const step = `[{"topic": "t", "payload": 1}]`
	for call, want := range map[string]string{
		`outbox_start_join(NULL)`:  "steps: steps must be an array of objects",
		`outbox_start_join('{}')`:  "steps: steps must be an array of objects",
		`outbox_start_join('[1]')`: "steps: steps has a wrong element 1, it must be an object",
		`outbox_start_join('[{"topic": "t", "payload": 1}, {"topic": "t"}]')`:   "steps: steps has a wrong element 2: payload must",
		`outbox_start_join('[{"topic": "t", "payload": 1, "dedup_key": "k"}]')`: "steps: steps has a wrong element 1: it must not be unique",
		`outbox_start_join('[{"topic": "t", "payload": 1, "joined": true}]')`:   "steps: steps has a wrong element 1, it must be",
		`outbox_start_join('[{"topic": "t", "payload": 1, "id": 7}]')`:          "steps: steps has a wrong element 1, a value is not of its field's type: invalid",
		`outbox_start_join('[{"topic": "t", "payload": 1}, {"topic": "t", "payload_base64": "%"}]')`: "steps: steps has a " +
			"wrong element 2, a value is not",
		`outbox_start_join('[]', '{"topic": "t", "payload": 1, "scheduled_at": "soon"}')`: "on_complete: on_complete, a " +
			"value is not of its field's type: invalid",
		`outbox_start_join('[{"topic": "t", "payload": 1}]', NULL, '{"topic": "t", "payload": 1, "max_attempts": "x"}')`:       "on_fail: on_fail, a value is not",
		`outbox_start_join((SELECT jsonb_agg(jsonb_build_object('topic', 't', 'payload', 1)) FROM generate_series(1, 10001)))`: "steps: steps must have at most 10000 elements",
		`outbox_start_join('` + step + `', '[]')`:                                             "on_complete: on_complete must be an object",
		`outbox_start_join('` + step + `', '{"topic": "", "payload": 1}')`:                    "on_complete: on_complete: topic must",
		`outbox_start_join('` + step + `', '{"topic": "t", "payload": 1, "x": 1}')`:           "on_complete: on_complete, it must be an object with known fields",
		`outbox_start_join('` + step + `', NULL, '"t"')`:                                      "on_fail: on_fail must be an object",
		`outbox_start_join('` + step + `', NULL, '{"topic": "t"}')`:                           "on_fail: on_fail: payload must",
		`outbox_start_join('` + step + `', '{"topic": "t", "payload": 1}', '{"topic": "t"}')`: "on_fail: on_fail: payload must",
		`outbox_start_join('` + step + `', policy => 'all')`:                                  "policy: policy must be wait_all, fail_fast or any_outcome",
		`outbox_start_join('` + step + `', policy => NULL)`:                                   "policy: policy must be",
		`outbox_start_join('` + step + `', deadline => 'infinity')`:                           "deadline: deadline must be between",
		`outbox_start_join('` + step + `', deadline => '1969-12-31')`:                         "deadline: deadline must be between",
		`outbox_start_join('` + step + `', label => repeat('x', 256))`:                        "label: label must have at most 255 bytes",
		`jobs_start_batch('{}')`:                                                              "jobs: jobs must be an array of objects",
		`jobs_start_batch('[{"kind": "echo", "args": 1, "unique_key": "k"}]')`:                "jobs: jobs has a wrong element 1: it must not be unique",
		`jobs_start_batch('[{"kind": "echo", "args": 1, "unique_fields": {"a": 1}}]')`:        "jobs: jobs has a wrong element 1: it must not be unique",
		`jobs_start_batch('[{"kind": "echo", "args": 1, "on_conflict": "replace"}]')`:         "jobs: jobs has a wrong element 1: it must not be unique",
	} {
		err := pgx.BeginFunc(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
			_, err := f.start(tx, call)
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || pg.Hint == "" ||
			!strings.HasPrefix(pg.ColumnName+": "+pg.Message, want) {
			t.Errorf("%.80s: %v (%+v), want %q", call, err, pg, want)
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.outbox_join"); n != 0 {
		t.Errorf("%d joins were written", n)
	}
}

// A call that is repeated after a lost reply finds the join by its id.
func TestAJoinIsStartedOnce(t *testing.T) {
	f := newFixture(t)
	id := uuid.New()
	call := `outbox_start_join('[{"topic": "t", "payload": 1}]', id => $1)`
	if s := f.begun(call, id); s.id != id {
		t.Errorf("the join has the id %v, want %v", s.id, id)
	}
	err := pgx.BeginFunc(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
		_, err := f.start(tx, call, id)
		return err
	})
	if n := ask[int](f, "SELECT count(*) FROM txwork.outbox"); postgres.State(err) != "23505" || n != 1 {
		t.Errorf("again: %v, %d messages", err, n)
	}
}
