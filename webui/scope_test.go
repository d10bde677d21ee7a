package webui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

// mine are the queues of the users of these tests.
var mine = map[string][]string{"jobs": {"mail"}, "outbox": {"orders"}, "inbox": {"billing"}, "timers": {"bells"}}

// byQueue configures a dashboard whose users see some queues, and one who sees all.
func byQueue(c *webui.Config) {
	c.Insecure, c.Actions = false, true
	c.Authenticate = func(r *http.Request) (webui.User, error) {
		u := webui.User{Name: r.Header.Get("X-User"), Role: webui.Operator, Queues: mine}
		switch u.Name {
		case "vic":
			u.Role = webui.Viewer
		case "half": // sees a table as a whole, too
			u.Tables, u.Queues = []string{"timers", "jobs"}, map[string][]string{"jobs": {"mail"}}
		case "idle":
			u.Queues = map[string][]string{"jobs": {}}
		case "ann":
			u.Queues = nil
		}
		return u, nil
	}
}

// secrets are what rows of other queues have, and nothing else has.
var secrets = []string{"zz-queue", "zz-topic", "zz-consumer", "zz-kind", "zz-error", "zz-payload", "zz-source",
	"zz-key"}

// hide writes rows of other queues in every state, with rules and history, and some of these users.
func (s *site) hide() {
	s.Helper()
	s.fill()
	const states = `CASE WHEN n > 0 THEN 1 ELSE 0 END, n, CASE WHEN n = 1 THEN now() + interval '1 hour' END,
		CASE WHEN n = 1 THEN gen_random_uuid() END, CASE WHEN n > 1 THEN now() END, CASE WHEN n = 3 THEN now() END,
		CASE WHEN n = 3 THEN 'zz-error ' || i END FROM generate_series(0, 3) AS n, generate_series(1, 3) AS i`
	const columns = "attempts, status, locked_until, owner_token, completed_at, failed_at, last_error"
	s.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args, ` + columns + `)
		SELECT 'zz-kind', 'zz-queue', 1, 'zz-payload', ` + states)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, ` + columns + `) SELECT 'zz-topic', 'zz-payload', ` + states)
	s.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id, topic, ` + columns + `)
		SELECT 'zz-consumer', 'zz-source', 'zz-key ' || n || i, 'zz-topic', ` + states)
	s.exec(`INSERT INTO {schema}.timers (key, topic, payload, fire_at, generation, ` + columns + `)
		SELECT 'zz-key ' || n || i, 'zz-topic', 'zz-payload', now(), 1, ` + states)
	s.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id) VALUES ('billing', 'bank', 'm1')`)
	s.exec(`INSERT INTO {schema}.timers (key, topic, payload, fire_at, generation) VALUES ('k', 'bells', '', now(), 1)`)
	s.exec(`INSERT INTO {schema}.jobs_queue (name, paused) VALUES ('zz-queue', true)`)
	s.exec(`SELECT {schema}.outbox_pause('zz-topic'), {schema}.outbox_pause('orders')`)
	s.exec(`SELECT {schema}.inbox_pause('zz-consumer', 'zz-topic')`)
	s.exec(`INSERT INTO history_flush SELECT 'jobs', 1, n, (ARRAY['zz-queue', 'mail'])[1 + n % 2],
			now() - n * interval '1 minute', 7777, 1, 1, 0, 0, 0, ARRAY[0, 0, n], ARRAY[0, 0, 0, 0, 0, 0, n]
		FROM generate_series(1, 20) AS n`)
	s.exec("SELECT history_merge('{jobs}', 10000)")
}

// hidden is what is stored of other queues.
const hidden = `SELECT md5(string_agg(t, ',' ORDER BY t)) FROM (
	SELECT j::text AS t FROM {schema}.jobs AS j WHERE queue = 'zz-queue'
	UNION ALL SELECT o::text FROM {schema}.outbox AS o WHERE topic = 'zz-topic'
	UNION ALL SELECT i::text FROM {schema}.inbox AS i WHERE consumer = 'zz-consumer'
	UNION ALL SELECT t::text FROM {schema}.timers AS t WHERE topic = 'zz-topic'
	UNION ALL SELECT q::text FROM {schema}.jobs_queue AS q WHERE name = 'zz-queue'
	UNION ALL SELECT t::text FROM {schema}.outbox_topic AS t WHERE topic = 'zz-topic'
	UNION ALL SELECT t::text FROM {schema}.inbox_topic AS t WHERE topic = 'zz-topic') AS all_of_them`

// tells fails the test if an answer tells anything of other queues that the request did not name.
func (s *site) tells(what, asked string, a answer, foreign []string) {
	s.Helper()
	body := a.body + fmt.Sprint(a.header)
	for _, text := range slices.Concat(secrets, foreign) {
		if strings.Contains(body, text) && !strings.Contains(asked, text) {
			s.Errorf("%s tells %q:\n%s", what, text, content(a.body))
		}
	}
}

// paths are the addresses of a route, with everything that its wildcards can be.
func paths(pattern string, values map[string][]string) []string {
	all := []string{strings.TrimSuffix(pattern, "{$}")}
	for name, some := range values {
		var next []string
		for _, path := range all {
			if !strings.Contains(path, "{"+name+"}") {
				next = append(next, path)
				continue
			}
			for _, v := range some {
				next = append(next, strings.ReplaceAll(path, "{"+name+"}", v))
			}
		}
		all = next
	}
	return all
}

// forged are forms for an action, each of which names everything of other queues that a form can name.
func forged(t *testing.T, path string, foreign []string) (all []url.Values) {
	t.Helper()
	state := "failed"
	if parts := strings.Split(path, "/"); len(parts) > 4 && parts[3] != "row" {
		state = parts[len(parts)-2]
	}
	order, err := json.Marshal(operate.Order{States: []string{state}, Before: time.Now().Add(-time.Second), Counted: 9,
		Filter: operate.Filter{Among: []string{"zz-queue", "zz-topic", "zz-consumer"}}})
	must(t, err)
	tables := []string{"jobs"}
	if strings.HasPrefix(path, "/topics") || strings.HasPrefix(path, "/schedules") {
		tables = []string{"jobs", "outbox", "inbox", "timers_schedule"}
	}
	for _, table := range tables {
		all = append(all, url.Values{"id": foreign[:40], "confirmed": {"yes"}, "order": {string(order)},
			"action": {uuid.NewString()}, "queue": {"zz-queue"}, "topic": {"zz-topic"}, "consumer": {"zz-consumer"},
			"table": {table}, "schedule": {"zz"}, "at": {"2030-01-01T00:00"}, "max_running": {"1"}})
	}
	return all
}

// Whatever a user of some queues asks for, of every route there is, neither tells nor changes anything of another
// queue.
func TestAUserOfOneQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, byQueue)
	s.hide()
	ann, mia := s.as("ann"), s.as("mia")
	ann.read()
	form := ann.confirm("/t/jobs/failed/redrive?queue=zz-queue")
	if a := ann.post("/t/jobs/failed/redrive", form); a.status != http.StatusSeeOther {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	ann.ended(form.Get("action"))
	var foreign []string
	must(t, s.db.Pool.QueryRow(t.Context(), strings.ReplaceAll(`SELECT array_agg(id::text) FROM (
		SELECT id FROM {schema}.jobs WHERE queue = 'zz-queue'
		UNION ALL SELECT id FROM {schema}.outbox WHERE topic = 'zz-topic'
		UNION ALL SELECT id FROM {schema}.inbox WHERE consumer = 'zz-consumer'
		UNION ALL SELECT id FROM {schema}.timers WHERE topic = 'zz-topic') AS f`, "{schema}", s.db.Schema)).Scan(&foreign))
	before := s.id(hidden)
	values := map[string][]string{"table": {"jobs", "outbox", "inbox", "timers", "jobs_schedule", "postcards"},
		"state": {"ready", "scheduled", "waiting", "in_progress", "expired", "done", "failed", "cancelled"},
		"verb": {"redrive", "run_now", "reschedule", "unblock", "cancel", "discard", "delete", "pause", "resume",
			"limit", "trigger"}, "action": {form.Get("action")}}
	for _, table := range []string{"jobs", "outbox", "inbox", "timers"} {
		values["id"] = append(values["id"], s.id("SELECT id::text FROM {schema}."+table+
			" WHERE id = ANY ($1::uuid[]) AND status = 2 LIMIT 1", foreign), s.id("SELECT id::text FROM {schema}."+table+
			" WHERE id = ANY ($1::uuid[]) AND status = 0 LIMIT 1", foreign))
	}
	cursor := regexp.MustCompile(`after=([\w-]+)`).FindStringSubmatch(ann.get("/t/jobs/ready?limit=2").body)[1]
	queries := []string{"", "?table=jobs", "?table=jobs&lane=zz-queue", "?queue=zz-queue", "?topic=zz-topic",
		"?error=zz", "?consumer=zz-consumer", "?kind=zz-kind", "?key=zz-key+31", "?q=zz-key+31", "?after=" + cursor,
		"?who=ann"}
	for _, id := range values["id"] {
		queries = append(queries, "?q="+id)
	}
	for _, pattern := range webui.Routes(s.page) {
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodGet && path != "/live" {
			for _, path := range paths(path, values) {
				some := queries
				if strings.HasPrefix(path, "/t/") {
					some = queries[:11]
				}
				if strings.Contains(path, "/row/") {
					some = queries[:1]
				}
				for _, query := range some {
					mia.tells("GET "+path+query, path+query, mia.get(path+query), foreign)
				}
			}
		}
		if method != http.MethodPost {
			continue
		}
		for _, path := range paths(path, values) {
			for _, form := range forged(t, path, foreign) {
				mia.tells("POST "+path, path+form.Encode()+fmt.Sprint(form), mia.post(path, form), foreign)
			}
		}
	}
	pgtest.Await(pgtest.Patience, func() bool { // actions by a filter, which have changed rows of her queues
		return s.id("SELECT count(*)::text FROM {schema}.audit WHERE event = 'begun'") ==
			s.id("SELECT count(*)::text FROM {schema}.audit WHERE event = 'ended'")
	})
	s.is(before, hidden)
	for _, path := range []string{"/maintenance", "/processes", "/schedules", "/keys", "/joins", "/dead", "/inbox",
		"/alarms", "/logs", "/audit", "/audit?table=jobs"} {
		mia.shows(path, http.StatusForbidden, "This is not shown by queue", "jobs: mail")
	}
	s.as("idle").shows("/", http.StatusForbidden, "Nothing to see")
	s.as("idle").shows("/t/jobs/ready", http.StatusForbidden, "Nothing to see")
}

// A user of some queues works with them as others do with tables.
func TestAUserOfOneQueueActs(t *testing.T) {
	t.Parallel()
	s := newSite(t, byQueue)
	s.hide()
	s.as("ann").read()
	mia := s.as("mia")
	before := s.id(hidden)
	body := mia.shows("/", http.StatusOK, "Of some tables you see these parts only", "jobs: mail", "t/outbox/ready",
		`<td class="n"><a href="./t/jobs/ready">3</a></td>`)
	for _, text := range []string{"Nothing is wrong", "Findings", `href="./maintenance"`, "t/postcards",
		"t/jobs_schedule"} {
		if strings.Contains(body, text) {
			t.Errorf("the overview shows %q:\n%s", text, content(body))
		}
	}
	mia.shows("/queues", http.StatusOK, "mail", "orders", "billing", "bells", "paused")
	mia.shows("/history", http.StatusOK, "<bdi>mail</bdi>", "7,777")
	mia.shows("/history?table=jobs&lane=mail&range=day", http.StatusOK, "mail", "<svg ")
	mia.shows("/history?table=jobs&lane=zz-queue", http.StatusOK, "Nothing was recorded")
	mia.shows("/t/inbox/ready", http.StatusOK, "billing", "m1")
	mia.shows("/t/timers/ready", http.StatusOK, "bells")
	mia.shows("/t/postcards/ready", http.StatusNotFound, "There is no such table")
	own := s.id("SELECT id::text FROM {schema}.jobs WHERE queue = 'mail' AND status = 3 AND cancelled_at IS NULL LIMIT 1")
	mia.shows("/t/jobs/row/"+own, http.StatusOK, "no such mailbox", "Redrive")
	if a := mia.get("/find?q=" + own); a.header.Get("Location") == "" {
		t.Errorf("the row is not found: %s", a.body)
	}
	foreign := s.id("SELECT id::text FROM {schema}.jobs WHERE queue = 'zz-queue' AND status = 3 LIMIT 1")
	absent := uuid.NewString()
	same := func(what string, a, b answer) {
		t.Helper()
		if a.status != b.status || strings.ReplaceAll(a.body, foreign, absent) != b.body {
			t.Errorf("%s: a row of another queue is told from one that is not there: %d, %d\n%s\n%s", what, a.status, b.status,
				content(a.body), content(b.body))
		}
	}
	same("its page", mia.get("/t/jobs/row/"+foreign), mia.get("/t/jobs/row/"+absent))
	same("finding it", mia.get("/find?q="+foreign), mia.get("/find?q="+absent))
	same("a verb", mia.post("/t/jobs/row/"+foreign+"/redrive", nil), mia.post("/t/jobs/row/"+absent+"/redrive", nil))
	chosen := func(id string) answer {
		return mia.post("/t/jobs/chosen/failed/discard", url.Values{"id": {id}, "confirmed": {"yes"}})
	}
	same("choosing it", chosen(foreign), chosen(absent))

	if a := mia.post("/t/jobs/row/"+own+"/redrive", nil); a.status != http.StatusSeeOther {
		t.Errorf("status %d: %s", a.status, content(a.body))
	}
	s.is("0", "SELECT status::text FROM {schema}.jobs WHERE id = $1", own)
	if a := mia.post("/t/jobs/row/"+own+"/unblock", nil); a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
	form := mia.confirm("/t/jobs/failed/redrive")
	if !strings.Contains(form.Get("order"), `"counted":2}`) {
		t.Errorf("the order is %s, want the two that are left of her queue", form.Get("order"))
	}
	if a := mia.post("/t/jobs/failed/redrive", form); a.status != http.StatusSeeOther {
		t.Errorf("status %d: %s", a.status, content(a.body))
	}
	if body := mia.ended(form.Get("action")); !strings.Contains(body, "2 of 2 rows") {
		t.Errorf("what became of it:\n%s", content(body))
	}
	s.is(`["mail"]`, "SELECT about->'filter'->>'among' FROM {schema}.audit WHERE event = 'begun'")
	s.as("ann").shows("/audit", http.StatusOK, "mia", "redrive")
	for path, form := range map[string]url.Values{"/queues/resume": {"queue": {"mail"}},
		"/queues/limit":  {"queue": {"mail"}, "max_running": {"3"}},
		"/topics/resume": {"table": {"outbox"}, "topic": {"orders"}},
		"/topics/pause":  {"table": {"inbox"}, "consumer": {"billing"}, "topic": {"any"}}} {
		if a := mia.post(path, form); a.status != http.StatusSeeOther {
			t.Errorf("%s has status %d: %s", path, a.status, content(a.body))
		}
	}
	s.is("f 3", "SELECT concat_ws(' ', paused, max_running) FROM {schema}.jobs_queue WHERE name = 'mail'")
	s.is(before, hidden)

	timer := s.id("SELECT id::text FROM {schema}.timers WHERE topic = 'bells'")
	s.exec(`CREATE FUNCTION {schema}.strays() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN NEW.topic = 'zz-topic'; RETURN NEW; END $$`)
	s.exec(`CREATE TRIGGER strays BEFORE UPDATE ON {schema}.timers FOR EACH ROW EXECUTE FUNCTION {schema}.strays()`)
	if a := mia.post("/t/timers/row/"+timer+"/cancel", nil); a.status != http.StatusBadRequest ||
		!strings.Contains(a.body, "another queue or topic meanwhile. Nothing was changed") {
		t.Errorf("status %d: %s", a.status, content(a.body))
	}
	s.is("bells 0", "SELECT concat_ws(' ', topic, status) FROM {schema}.timers WHERE id = $1", timer)

	s.as("vic").lacks("/t/jobs/failed", "Redrive")
	if a := s.as("vic").post("/t/jobs/row/"+own+"/cancel", nil); a.status != http.StatusForbidden {
		t.Errorf("a viewer's action has status %d", a.status)
	}
	half := s.as("half")
	half.shows("/t/timers/ready", http.StatusOK, "bells")
	half.shows("/maintenance", http.StatusOK, "timers")
	half.lacks("/t/jobs/ready", "zz-")
	half.lacks("/dead", "smtp")
	half.lacks("/audit", "mia")
	half.shows("/t/jobs/row/"+foreign, http.StatusNotFound, "The row is not there")
}

// Who sees less is not shown what somebody else has read, and the other way round.
func TestPagesOfQueuesAreNotSharedWithOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, byQueue, func(c *webui.Config) { c.Refresh = time.Hour })
	s.hide()
	s.as("ann").read()
	update := func(user, path string) answer {
		return s.send(http.MethodGet, path, http.Header{"X-User": {user}, "Txwork-Update": {"1"}})
	}
	for _, path := range []string{"/", "/queues"} {
		if a := update("ann", path); path == "/queues" && !strings.Contains(a.body, "zz-queue") {
			t.Errorf("%s lacks the other queue:\n%s", path, content(a.body))
		}
		mia := update("mia", path)
		s.tells(path, "", mia, nil)
		if path == "/" && !strings.Contains(mia.body, "Of some tables you see these parts only") {
			t.Errorf("an update does not say that it is a part:\n%s", content(mia.body))
		}
		body := update("half", path).body
		if strings.Contains(body, "zz-queue") || !strings.Contains(body, "t/timers/ready") {
			t.Errorf("%s:\n%s", path, content(body))
		}
	}
}

// Whoever may not look is not told of what this is a dashboard.
func TestAStrangerIsToldNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	for _, path := range []string{"/", "/t/jobs/ready", "/nothing"} {
		a := s.get(path)
		if a.status != http.StatusUnauthorized || strings.Contains(a.body, s.db.Schema) ||
			strings.Contains(a.body, "t/jobs") {
			t.Errorf("%s has status %d:\n%s", path, a.status, a.body)
		}
	}
	if log := s.log.String(); strings.Contains(log, "level=INFO") || !strings.Contains(log, "level=WARN") {
		t.Errorf("the log has %s", log)
	}
}

// Browsers ask once without credentials, which is no attack.
func TestWrongCredentialsAreAWarning(t *testing.T) {
	t.Parallel()
	hash, err := webui.HashToken("the token of the test, which is long enough")
	must(t, err)
	accounts, err := webui.NewAccounts(webui.Account{User: webui.User{Name: "bot"}, TokenHash: hash})
	must(t, err)
	s := newSite(t, func(c *webui.Config) { c.Insecure, c.Authenticate = false, accounts.Authenticate })
	s.get("/")
	if log := s.log.String(); !strings.Contains(log, "level=INFO") || strings.Contains(log, "level=WARN") {
		t.Errorf("the log has %s", log)
	}
	s.send(http.MethodGet, "/", http.Header{"Authorization": {"Bearer wrong-one"}})
	if log := s.log.String(); !strings.Contains(log, "level=WARN") || strings.Contains(log, "wrong-one") {
		t.Errorf("the log has %s", log)
	}
}
