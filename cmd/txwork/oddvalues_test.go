package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// oddValues are what SQL may write into a column of a type, and what no program of ours writes.
var oddValues = map[string][]string{
	"timestamptz": {"'infinity'", "'-infinity'", "'9999-12-31 00:00:01Z'", "'12000-01-01 00:00:00Z'",
		"'4713-02-01 00:00:00Z BC'", firstTime, lastTime},
	"interval": {"'170000000 years'", "'-1 year'"},
	"bigint":   {"9223372036854775807", "-9223372036854775808"},
	"integer":  {"2147483647", "2147483646", "-2147483648"},
	"smallint": {"32767", "-32768"},
	"float8":   {"'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324"},
	"text":     {"''", `E'no \u0001\n\u202e name'`, "repeat('x', 5000)"},
	"jsonb":    {"'7'", "'[]'", "'null'", `'{"txwork-ahead": "much"}'`},
}

// Between these, a time can be subtracted from any other, and printed in every zone.
const firstTime, lastTime = "'0001-01-01 00:00:00Z'", "'9999-12-31 00:00:00Z'"

// onlyCompared are the columns whose infinite times mean something, and are never subtracted from others.
var onlyCompared = []string{"outbox_key_note.due", "outbox_key_state.due", "outbox_key_cursor.swept_at",
	"outbox_join_cursor.swept_at", "jobs_key_note.due", "jobs_key_state.due", "jobs_key_cursor.swept_at",
	"jobs_join_cursor.swept_at", "schema_version.tstamp"}

// seedRows fills every table, so that an odd value can be written into a row of each.
const seedRows = `
	INSERT INTO outbox (topic, payload, key, concurrency_key, key_limit, key_policy, key_rate, key_burst, headers)
	SELECT 'odd', '', 'k' || i, 'k' || i, i % 2, 1 - i % 2, CASE i % 2 WHEN 1 THEN 10 END, CASE i % 2 WHEN 1 THEN 10 END,
		'{}' FROM generate_series(1, 90) AS i;
	INSERT INTO outbox_key_state (concurrency_key, limited, n, place, taken, next_at, at)
	SELECT 'k' || i, i % 2 = 1, 1, CASE i % 2 WHEN 0 THEN 1 END, CASE i % 2 WHEN 1 THEN 0 END,
		CASE i % 2 WHEN 1 THEN now() END,
		now() FROM generate_series(1, 90) AS i;
	INSERT INTO outbox_join (id, expected, deadline, retention) SELECT gen_random_uuid(), 1, now(), '1 hour'
	FROM generate_series(1, 90);
	INSERT INTO outbox_join_member (member_id, join_id) SELECT gen_random_uuid(), j.id FROM outbox_join AS j;
	INSERT INTO outbox_join_note (join_id) SELECT j.id FROM outbox_join AS j;
	INSERT INTO inbox (consumer, source, message_id, topic, payload, headers)
	SELECT 'odd', 's', i::text, 't', '', '{}' FROM generate_series(1, 60) AS i;
	INSERT INTO timers (key, topic, payload, fire_at, generation, headers)
	SELECT i::text, 't', '', now(), 1, '{}' FROM generate_series(1, 60) AS i;
	INSERT INTO timers_schedule (name, expr, zone, misfire, cap, grace, overlap, jitter, template, paused, next_at,
		fired, skipped, headers)
	SELECT i::text, '@hourly', 'UTC', 'once', 1, 0, 'allow', 0, '{}', false, now(), 0, 0, '{}'
	FROM generate_series(1, 60) AS i;
	INSERT INTO jobs_schedule (name, expr, zone, misfire, cap, grace, overlap, jitter, template, paused, next_at,
		fired, skipped, headers)
	SELECT i::text, '@hourly', 'UTC', 'once', 1, 0, 'allow', 0,
		'{"kind": "good", "args": "e30=", "queue": "good", "priority": 2}', false, now(), 0, 0, '{}'
	FROM generate_series(1, 60) AS i;
	INSERT INTO jobs (kind, queue, priority, args, headers) SELECT 'k', 'odd', 2, '{}', '{}' FROM generate_series(1, 90);
	INSERT INTO jobs_queue (name, max_running, rate, burst) SELECT 'q' || i, 10, 10, 10 FROM generate_series(1, 60) AS i;
	INSERT INTO jobs_start (queue, at, job_id, owner_token)
		SELECT 'q' || i, i, gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 60) AS i;
	INSERT INTO jobs_slot (job_id, queue) SELECT gen_random_uuid(), 'q' || i FROM generate_series(1, 60) AS i;
	INSERT INTO jobs_attempt (job_id, attempt, ended_at, outcome) SELECT gen_random_uuid(), 1, now(), 'failed'
	FROM generate_series(1, 60);
	INSERT INTO jobs_step (job_id, name, result) SELECT gen_random_uuid(), 's', '' FROM generate_series(1, 60);
	INSERT INTO alarms (owner_did, user_id, kind, next_fire_at) SELECT 'o', 'u', 'once', now() FROM generate_series(1, 60);
	INSERT INTO leader (name, term, holder, expires_at, granted_at) SELECT 't' || i, 1, gen_random_uuid(), now(), now()
	FROM generate_series(1, 60) AS i;`

var coreTables = []string{"outbox", "inbox", "timers", "timers_schedule", "jobs", "jobs_schedule"}

type oddColumn struct{ Table, Column, Type string }

// Whatever SQL writes into one row, it is refused, or the other rows go on and everybody can still look. The columns
// come from the catalog, so that a new one is tried as well.
func TestOneOddValueIsRefusedOrHarmsNoOther(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("SET search_path = {schema}; " + strings.ReplaceAll(seedRows, "\n", " "))
	columns := c.oddColumns()
	if len(columns) < 150 {
		t.Fatalf("only %d columns were found", len(columns))
	}
	var accepted []string
	ids := map[string][]string{}
	for i, column := range columns {
		for j, odd := range oddValues[column.Type] {
			name := column.Table + "." + column.Column
			id, err := c.writeOdd(column, odd, i*3+j)
			var pg *pgconn.PgError
			switch {
			case err == nil && column.Type == "timestamptz" && odd != firstTime && odd != lastTime &&
				!slices.Contains(onlyCompared, name):
				t.Errorf("%s = %s was accepted", name, odd)
			case err == nil:
				accepted = append(accepted, name+" = "+odd)
				if slices.Contains(coreTables, column.Table) {
					ids[column.Table] = append(ids[column.Table], *id)
				}
			case !errors.As(err, &pg) || pg.Code[:2] != "22" && pg.Code[:2] != "23":
				t.Errorf("%s = %s: %v", name, odd, err)
			}
		}
	}
	t.Logf("%d columns, %d odd values accepted", len(columns), len(accepted))
	c.look()
	step := pgtest.Size(10, 1)
	for table, all := range ids {
		for i := rand.IntN(step); i < len(all); i += step { // any run may show any of them
			c.run("show", table, all[i], "--json").ok()
		}
	}
	c.goOn()
	c.look()
	if t.Failed() {
		t.Logf("accepted: %s", strings.Join(accepted, "\n"))
	}
}

func (c *cli) oddColumns() []oddColumn {
	c.t.Helper()
	rows, err := c.db.Pool.Query(c.t.Context(), `
		SELECT c.relname::text, a.attname::text, CASE b.typname WHEN 'int8' THEN 'bigint' WHEN 'int4' THEN 'integer'
			WHEN 'int2' THEN 'smallint' ELSE b.typname::text END
		FROM pg_class AS c
		JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		JOIN pg_type AS t ON t.oid = a.atttypid
		JOIN pg_type AS b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
		WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r' AND c.relname NOT LIKE 'schema\_%'
		ORDER BY c.relname, a.attnum`, c.db.Schema)
	must(c.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oddColumn])
	must(c.t, err)
	return slices.DeleteFunc(all, func(o oddColumn) bool { return oddValues[o.Type] == nil })
}

// writeOdd writes a value into the column of one of the table's rows. If the row has to be in progress or to have ended
// for that, it is. The result is the row's id, if rows of the table have one.
func (c *cli) writeOdd(o oddColumn, odd string, place int) (id *string, err error) {
	set := fmt.Sprintf("%q = %s", o.Column, odd)
	switch o.Column {
	case "locked_until":
		set += ", status = 1, owner_token = gen_random_uuid(), attempts = 1"
	case "completed_at":
		set += ", status = 2, waiting = false"
	case "failed_at":
		set += ", status = 3, waiting = false, completed_at = now()"
	case "max_attempts":
		set += fmt.Sprintf(", attempts = greatest(%s - 1, 0)", odd)
	case "rearm_at":
		set += ", status = 1, owner_token = gen_random_uuid(), attempts = 1, locked_until = now(), rearm_topic = 't', " +
			"rearm_payload = '', rearm_max_attempts = 1"
	}
	if o.Table == "alarms" || !strings.Contains("outbox jobs inbox timers jobs_schedule timers_schedule", o.Table) {
		set = fmt.Sprintf("%q = %s", o.Column, odd)
	}
	err = c.db.Pool.QueryRow(c.t.Context(), fmt.Sprintf(`UPDATE %[1]s.%[2]s AS t SET %[3]s WHERE ctid = (
		SELECT ctid FROM %[1]s.%[2]s ORDER BY ctid OFFSET %[4]d %% (SELECT count(*) FROM %[1]s.%[2]s) LIMIT 1)
		RETURNING to_jsonb(t) ->> 'id'`, c.db.Schema, o.Table, set, place)).Scan(&id)
	return id, err
}

// goOn fails the test unless new rows of each table run, all maintenance does its work, and everybody can look.
func (c *cli) goOn() {
	c.t.Helper()
	schema := c.db.Schema
	c.exec(`INSERT INTO {schema}.outbox (topic, payload, concurrency_key, key_limit, key_policy, key_rate, key_burst)
		VALUES ('good', '', 'new', 0, 1, NULL, NULL), ('good', '', 'new', 3, 0, 5, 5),
			('good', '', NULL, NULL, NULL, NULL, NULL)`)
	c.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args) VALUES ('good', 'odd', 2, '{}'),
		('good', 'fresh', 2, '{}')`)
	c.run("jobs", "limit", "fresh", "--max-running", "3", "--rate", "5").ok()
	for _, table := range coreTables {
		if _, err := c.db.Pool.Exec(c.t.Context(), fmt.Sprintf("CALL %s.%s_maintain()", schema, table)); err != nil {
			c.t.Errorf("maintaining %s: %v", table, err)
		}
	}
	c.run("reap").ok()
	box, err := outbox.Open(outbox.Options{Schema: schema, Ordering: outbox.PerKey})
	must(c.t, err)
	client, err := jobs.Open(jobs.Options{Schema: schema,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	must(c.t, err)
	in, err := inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	must(c.t, err)
	clock, err := timers.Open(timers.Options{Schema: schema})
	must(c.t, err)
	c.drain(box.Table(), "topic = 'good'")
	c.drain(client.Table(), "queue = 'odd'", "odd", int16(jobs.Normal))
	c.drain(client.Table(), "queue = 'fresh'", "fresh", int16(jobs.Normal))
	c.drain(in.Table(), "consumer = 'odd'", "odd")
	c.drain(clock.Table(), "true")
	c.schedule(client)
	c.run("cancel", "outbox", "--topic", "odd", "--yes").ok()
	c.run("redrive", "jobs", "--kind", "k", "--yes").ok()
	c.run("purge", "outbox", "--failed-older-than", "1h", "--yes").ok()
}

// schedule fails the test unless a scheduler fires a new schedule, whatever is in the rows of others.
func (c *cli) schedule(client *jobs.Client) {
	c.t.Helper()
	c.exec(`INSERT INTO {schema}.jobs_schedule (name, expr, zone, misfire, cap, grace, overlap, jitter, template, paused,
		next_at, fired, skipped) VALUES ('good', '@hourly', 'UTC', 'once', 1, 0, 'allow', 0,
		'{"kind": "good", "args": "e30=", "queue": "good", "priority": 2}', false, date_trunc('hour', now()), 0, 0)`)
	scheduler, err := client.Schedules().Scheduler(c.db.Pool, periodic.SchedulerOptions{})
	must(c.t, err)
	ctx, cancel := context.WithCancel(c.t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- scheduler.Run(ctx) }()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return value[bool](c, "SELECT fired = 1 FROM {schema}.jobs_schedule WHERE name = 'good'")
	}) {
		c.t.Error("a new schedule has not fired")
	}
	cancel()
	must(c.t, <-stopped)
}

// look fails the test unless everybody who looks at the tables sees all of them.
func (c *cli) look() {
	c.t.Helper()
	schema := c.db.Schema
	for _, args := range [][]string{{"stats"}, {"keys", "outbox"}, {"joins", "outbox"}, {"jobs", "list"},
		{"jobs", "queues"}, {"timers", "list"}, {"schedules", "list"}, {"top"}} {
		c.run(append(args, "--json")...).ok()
	}
	for _, table := range coreTables {
		for status := range operate.Listings {
			c.run("list", table, "--status", status, "--limit", "1000", "--json").ok()
		}
	}
	r := c.doctor("--json")
	if report := decode[struct{ Skipped []map[string]any }](r); r.code == exitFailure || len(report.Skipped) > 0 {
		c.t.Errorf("the doctor exits with %d and skipped %v", r.code, report.Skipped)
	}
	e, err := exporter.New(c.db.Pool, reaper.GaugeOptions{Schema: schema, Timeout: 5 * time.Minute,
		StatementTimeout: time.Minute})
	must(c.t, err)
	defer e.Close()
	scrape := httptest.NewRecorder()
	e.ServeHTTP(scrape, httptest.NewRequestWithContext(c.t.Context(), http.MethodGet, "/metrics", nil))
	if text := scrape.Body.String(); !strings.Contains(text, "txwork_observation_up 1") ||
		!strings.Contains(text, "txwork_observation_skipped 0") {
		c.t.Errorf("the gauges:\n%s", text)
	}
}

// drain claims all due rows and acknowledges them, until the wanted rows are done.
func (c *cli) drain(table *workqueue.Table, wanted string, lane ...any) {
	c.t.Helper()
	q := table.On(c.db.Pool)
	for range 20 {
		if _, err := q.Fold(c.t.Context()); err != nil {
			c.t.Errorf("folding %s: %v", table.Name(), err)
		}
		owner := workqueue.NewOwnerToken()
		rows, err := q.Claim(c.t.Context(), owner, workqueue.DefaultLease, 500, lane...)
		if err != nil {
			c.t.Errorf("claiming from %s: %v", table.Name(), err)
			return
		}
		var ids []uuid.UUID
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		if done, err := q.Ack(c.t.Context(), owner, ids); err != nil || len(done) != len(ids) {
			c.t.Errorf("acknowledged %d of %d rows of %s: %v", len(done), len(ids), table.Name(), err)
		}
		if value[bool](c, "SELECT count(*) = 0 FROM "+table.Name()+" WHERE status < 2 AND due_at <= now() AND "+
			"coalesce(locked_until < "+lastTime+", true) AND "+wanted) {
			return
		}
	}
	c.t.Errorf("rows of %s are not done", table.Name())
}
