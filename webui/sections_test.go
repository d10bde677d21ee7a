package webui_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
)

// Topics that are paused or rest are shown with what is said of their destination, and queues with who serves them.
func TestQueuesShowTopicsAndWhoServes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec("SELECT {schema}.outbox_pause('orders')")
	s.exec(`INSERT INTO {schema}.outbox_topic (topic, unavailable_since, rests_until, rest, cause)
		VALUES ($1, now() - interval '10 min', now() + interval '5 min', '5 min', 'connection refused')`, evil[:60])
	s.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args) VALUES ('k', 'mail', 2, '')`)
	s.exec(`INSERT INTO {schema}.jobs_queue (name, max_running, rate, burst) VALUES ('mail', 3, 2.5, 7)`)
	s.exec(`CALL {schema}.process_beat(17, 'web-1', 'Go', '1.0', $1)`,
		`[{"table": "jobs", "lanes": {"queue": ["mail"]}, "concurrency": 12}, {"table": "outbox", "concurrency": 4}]`)
	s.exec(`CALL {schema}.process_beat(18, $1, 'Go', '1.0', '[17, {"table": 1}, "x"]')`, evil[:60])
	s.read()
	body := s.shows("/queues", http.StatusOK, ">paused<", ">rests<", "connection refused", "at most 3 running",
		"2.5 a second",
		"7 at once", `<td class="n">12</td>`, "1 process</a> can run 12 at once", "can run 4 at once")
	body += s.shows("/processes", http.StatusOK, "web-1", "jobs, 12 at once (queue: mail)", `id="p000000000011"`,
		"it does not say")
	if strings.Contains(body, "<script>alert") {
		t.Error("a topic or a host runs script")
	}
}

// A user of some tables sees what is about these.
func TestPagesOfAUserOfSomeTables(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.exec(`CALL {schema}.process_beat(17, 'relay-host', 'Go', '1.0', '[{"table": "outbox", "concurrency": 4}]')`)
	s.exec(`CALL {schema}.process_beat(18, 'jobs-host', 'Go', '1.0',
		'[{"table": "outbox", "concurrency": 4321}, {"table": "jobs", "concurrency": 5}]')`)
	some := serve(t, s.db, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
			return webui.User{Name: "ann", Tables: []string{"jobs", "jobs_schedule"}}, nil
		}
	})
	some.read()
	for path, want := range map[string]string{"/queues": "mail", "/schedules": "jobs_schedule", "/keys": "jobs",
		"/joins": "jobs", "/processes": "jobs-host", "/maintenance": "jobs", "/logs": "no outbox that is a log",
		"/inbox": "No table that you see", "/alarms": "no alarms that you may see", "/dead": "smtp"} {
		body := content(some.shows(path, http.StatusOK, want))
		for _, hidden := range []string{"orders", "relay-host", "4321", ">outbox<", ">inbox<", "Oldest transactions"} {
			if strings.Contains(body, hidden) {
				t.Errorf("%s shows %q to a user of jobs:\n%s", path, hidden, body)
			}
		}
	}
	some.shows("/joins/outbox/01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17", http.StatusNotFound, "There is no such table")
	some.shows("/logs/01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17", http.StatusNotFound, "There is no log")
	for _, table := range []string{"/keys?table=outbox", "/inbox?table=inbox", "/schedules?table=timers_schedule"} {
		some.shows(table, http.StatusNotFound, "There is no such table", "that you may see")
	}
}

// A log shows how far its subscriptions are behind, and what became of a message.
func TestALogAndItsMessages(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema, Domains: migrations.Domains()})
	must(t, err)
	db.Define(t, text)
	s := serve(t, db)
	s.shows("/logs", http.StatusOK, "The log has no subscriptions.")
	s.exec("SELECT {schema}.outbox_log_subscribe('search', start => '-infinity', lanes => 2)")
	s.exec(`INSERT INTO {schema}.outbox_log (xid, topic, key, headers, payload)
		SELECT (pg_current_xact_id()::text)::bigint, $1, 'k', jsonb_build_object('traceparent',
			'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'), convert_to($1, 'UTF8')`, evil)
	id := s.id("SELECT id FROM {schema}.outbox_log")
	s.exec(`INSERT INTO {schema}.outbox_log_loss VALUES ('search', 1, now(), 1, 2, 77, now(), now(), 'cut')`)
	s.shows("/logs", http.StatusOK, "search", "Losses", `<td class="n">77</td>`)
	body := s.shows("/logs/"+id, http.StatusOK, "search", "&lt;script&gt;alert", "waiting")
	if strings.Contains(body, "<script>alert") {
		t.Error("a message runs script")
	}
	a := s.get("/logs/find?id=%20" + id)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "../logs/"+id {
		t.Errorf("the form leads to %q", a.header.Get("Location"))
	}
	s.shows("/find?q="+id, http.StatusOK, "Search the log", "./logs/"+id)
	s.exec(`INSERT INTO {schema}.outbox_log_parked (seq, appended_at, message_id, subscription, topic, payload)
		SELECT n, now(), gen_random_uuid(), s, s || '-topic', '' FROM unnest('{search,billing}'::text[]) WITH ORDINALITY AS t (s, n)`)
	s.shows("/t/outbox_log_parked/ready?subscription=search", http.StatusOK, "Subscription", "search-topic")
	s.lacks("/t/outbox_log_parked/ready?subscription=search", "billing-topic")
	for path, want := range map[string]string{"/logs/01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17": "The message is not there",
		"/logs/x": "This is no id", "/logs/find?id=x": "This is no id"} {
		s.shows(path, http.StatusNotFound, want)
	}
	for _, after := range []string{"x", "1", "1.2.3", "9223372036854775808.1", "%00"} {
		s.shows("/logs/"+id+"?after="+after, http.StatusBadRequest, "What to do:")
	}
	later := s.id(`SELECT gen_random_uuid()::text`)
	s.exec("SELECT {schema}.outbox_log_append('t', '', id => $1, scheduled_at => now() + interval '1 hour')", later)
	s.shows("/logs/"+later, http.StatusConflict, "is scheduled for")
	s.shows("/logs", http.StatusOK, "<dt>scheduled</dt><dd>1 message</dd>")
	s.exec(`INSERT INTO {schema}.outbox_log (xid, topic, payload)
		SELECT (pg_current_xact_id()::text)::bigint, 'noise', '' FROM generate_series(1, 10000)`)
	s.shows("/logs/"+id, http.StatusOK, "Go on searching", "5,000 messages were searched")
}

// The sources of messages, and the alarms that come next, go on from page to page.
func TestSourcesAndAlarms(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/inbox", http.StatusOK, "No message was received")
	s.shows("/alarms", http.StatusOK, "No alarm is active.")
	s.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id, topic, payload)
		SELECT 'billing', 'shop-' || to_char(i, 'FM000'), n::text, 't', '' FROM generate_series(1, 60) AS i,
		generate_series(1, 2) AS n`)
	s.exec(`INSERT INTO {schema}.alarms (owner_did, user_id, label, kind, cron_expr, next_fire_at, wake_message, last_error)
		SELECT 'did:' || i, 'u', $1, CASE WHEN i = 1 THEN 'cron' ELSE 'once' END, CASE WHEN i = 1 THEN '@hourly' ELSE '' END,
			now() + (i - 2) * interval '1 h', 'secret', CASE WHEN i = 1 THEN 'no answer' ELSE '' END
		FROM generate_series(1, 150) AS i`, evil)
	s.shows("/inbox", http.StatusOK, "shop-050", "Next page")
	s.lacks("/inbox", "shop-051")
	s.shows("/inbox?table=inbox&consumer=billing&source=shop-050", http.StatusOK, "shop-051", "shop-060")
	s.shows("/inbox?consumer=%ff", http.StatusOK, "The address is wrong")
	body := s.shows("/alarms", http.StatusOK, "Series whose last delivery failed", "no answer", ">late<", "Next page",
		"did:100<")
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "secret") ||
		strings.Contains(body, "did:101<") {
		t.Error("alarms run script, show what they say, or are not paged")
	}
	_, next, _ := strings.Cut(body, `rel="next" href="./alarms`)
	next, _, _ = strings.Cut(next, `"`)
	s.shows("/alarms"+strings.ReplaceAll(next, "&amp;", "&"), http.StatusOK, "did:101<", "did:150<")
	s.shows("/alarms?after=x", http.StatusBadRequest, "The address is wrong")
	s.shows("/alarms?after=2026-01-01T00:00:00Z&id=x", http.StatusNotFound, "This is no id")
}

// Maintenance says who maintains which table, and how the schema differs from the migrations.
func TestMaintenanceShowsWhoMaintains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.shows("/maintenance", http.StatusOK, "nobody ever did", "outbox", "001_outbox")
	s.exec("SELECT {schema}.leader_note('{schema}.outbox', $1)", evil)
	s.exec("DROP INDEX {schema}.outbox_claim_idx")
	tx, err := s.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "SELECT pg_current_xact_id()")
	must(t, err)
	s = serve(t, s.db, func(c *webui.Config) { c.Refresh = time.Second }) // the doctor looks again if it had no time
	s.read()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return strings.Contains(s.get("/maintenance").body, "finding critical")
	}) {
		t.Error("the missing index is not shown")
	}
	body := s.shows("/maintenance", http.StatusOK, "<td>last ", "Oldest transactions",
		"&lt;script&gt;alert")
	if strings.Contains(body, "<script>alert") {
		t.Error("a problem runs script")
	}
}

func TestATimeLineOfSchedules(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.schedules(4, "nightly", "boom")
	s.exec(`UPDATE {schema}.jobs_schedule SET expr = '* * * * *', zone = 'UTC' WHERE name = 'nightly004'`)
	body := s.shows("/schedules?zone=Asia/Tokyo", http.StatusOK, "time line, Asia/Tokyo", `class="marks`, "more than 48 times",
		`<option selected>24</option>`, `class="marks late"`)
	if n := strings.Count(body, `role="img"`); n != 4 {
		t.Errorf("there are %d time lines", n)
	}
	s.shows("/schedules?hours=168", http.StatusOK, `<option selected>168</option>`)
	s.shows("/schedules?zone=Mars/Olympus", http.StatusBadRequest, "is not known")
	s.shows("/schedules?zone=../../etc/passwd", http.StatusBadRequest, "is not known")
	s.shows("/schedules?hours=5", http.StatusBadRequest, "must be 6, 24 or 168")
	s.exec(`UPDATE {schema}.jobs_schedule SET expr = 'no such thing', zone = 'Nowhere' WHERE name = 'nightly004'`)
	s.shows("/schedules", http.StatusOK, "no such thing")
}

// The host decodes payloads, hides parts of what rows carry, and leads to traces.
func TestHooksOfTheHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, headers, status, attempts, completed_at, failed_at, last_error)
		VALUES ('t', 'ROT13', '{"token": "hunter2", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
			3, 1, now(), now(), 'card 4711 was refused')`)
	bad := s.id(`INSERT INTO {schema}.outbox (topic, payload) VALUES ('t', 'garbled') RETURNING id`)
	id := s.id("SELECT id FROM {schema}.outbox WHERE status = 3")
	s.exec(`INSERT INTO {schema}.outbox_topic (topic, unavailable_since, rests_until, rest, cause)
		VALUES ('rests', now(), now() + interval '1 hour', interval '1 hour', 'card 4711 is unreachable')`)
	rests := s.id(`INSERT INTO {schema}.outbox (topic, payload, aside, waiting) VALUES ('rests', '', true, true)
		RETURNING id`)
	long := s.id(`INSERT INTO {schema}.outbox (topic, payload)
		VALUES ('t', convert_to('long' || repeat('x', 65530) || '4711', 'UTF8')) RETURNING id`)
	configure := func(c *webui.Config) {
		c.TraceURL = "https://traces.example/{trace}/{span}"
		c.Redact = func(c webui.Content) string {
			if c.Name == "token" {
				return "(hidden)"
			}
			return strings.NewReplacer("4711", "****", "secret", "******").Replace(string(c.Bytes))
		}
		c.Decode = func(_ context.Context, c webui.Content) ([]byte, error) {
			if string(c.Bytes) == "garbled" {
				return nil, errors.New("no key for garbled")
			}
			if strings.HasPrefix(string(c.Bytes), "long") {
				return c.Bytes, nil
			}
			return []byte(`{"decoded": "secret", "by": "` + c.Table + "." + c.Name + " " + c.Headers["token"] + `"}`), nil
		}
	}
	hooked := serve(t, s.db, configure)
	hooked.read()
	row := "/t/outbox/row/" + id
	hooked.shows(row, http.StatusOK, "outbox.payload hunter2", "******", "Parts are hidden.",
		"Decoded: JSON, 5 bytes stored",
		"card **** was refused", "https://traces.example/0af7651916cd43dd8448eb211c80319c/b7ad6b7169203331", "(hidden)")
	hooked.shows("/t/outbox/row/"+bad, http.StatusOK, "garbled", "could not be decoded")
	hooked.lacks("/t/outbox/row/"+bad, "no key")
	if !strings.Contains(hooked.log.String(), "no key for garbled") {
		t.Error("the log does not say why a payload could not be decoded")
	}
	hooked.shows("/queues", http.StatusOK, "card **** is unreachable")
	hooked.shows("/t/outbox/row/"+rests, http.StatusOK, "card **** is unreachable")
	hooked.lacks("/t/outbox/row/"+long, "x47") // a part of what is hidden
	for _, path := range []string{row, "/dead", "/t/outbox/failed", "/", "/queues", "/t/outbox/row/" + rests} {
		hooked.lacks(path, "4711", "secret")
	}
	viewer := serve(t, s.db, configure, func(c *webui.Config) { c.HideContent = true })
	viewer.lacks(row, "decoded", "hunter2", "(hidden)", "traces.example")
	for _, address := range []string{"javascript:{trace}", "https://traces.example/", "/traces/{trace}"} {
		if _, err := webui.New(webui.Config{Pool: s.db.Pool, Insecure: true, TraceURL: address}); err == nil {
			t.Errorf("the address %q of traces is not refused", address)
		}
	}
}

// Pages of many rows read a bounded number of them. None of these pages begins a survey, which would be counted, too.
func TestWhatPagesRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := pgtest.Size(20_000, 100_000)
	s.exec("ALTER TABLE {schema}.outbox DISABLE TRIGGER USER")
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, concurrency_key, key_seq, key_limit, key_policy, waiting)
		SELECT 't', '', 'k' || i / 2, i, 0, 1, i % 2 = 1 FROM generate_series(1, $1::int) AS i`, n)
	s.exec("ALTER TABLE {schema}.outbox ENABLE TRIGGER USER")
	s.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id, topic, payload)
		SELECT 'c', 's' || i % 100, i::text, 't', '' FROM generate_series(1, $1::int) AS i`, n)
	s.exec(`INSERT INTO {schema}.jobs_join (id, expected, retention)
		SELECT gen_random_uuid(), 1000, '1 day' FROM generate_series(1, $1::int) AS i`, n)
	s.exec(`INSERT INTO {schema}.jobs_join_member (member_id, join_id)
		SELECT gen_random_uuid(), j.id FROM (SELECT id FROM {schema}.jobs_join ORDER BY id DESC LIMIT 20) AS j,
			generate_series(1, 1000)`)
	s.exec("VACUUM ANALYZE {schema}.outbox, {schema}.inbox, {schema}.jobs_join, {schema}.jobs_join_member")
	for path, tables := range map[string][]string{"/keys": {"outbox"}, "/inbox": {"inbox"},
		"/joins": {"jobs_join", "jobs_join_member"}} {
		for _, table := range tables {
			pages := pgtest.Pages(t, s.db.Pool, s.db.Schema+"."+table, func() { s.shows(path, http.StatusOK) })
			t.Logf("%s reads %d pages of %s", path, pages, table)
			if pages > 20_000 {
				t.Errorf("%s reads %d pages of %s", path, pages, table)
			}
		}
	}
}
