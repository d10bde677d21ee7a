package browser

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
	"github.com/txwork/txwork/workqueue"
)

// A counter is a shop without workers, where a person does everything that can be done with the mouse.
type counter struct {
	*tab
	pool   *pgxpool.Pool
	schema string

	mu   sync.Mutex
	done map[string]bool // actions that were carried out, by their routes with the verb
}

func newCounter(t *testing.T, routes map[string][]string) *counter {
	t.Helper()
	c := &counter{pool: shop.Pool, schema: "counter_" + strings.ToLower(rand.Text()[:8]), done: map[string]bool{}}
	m, err := migrations.New(shop.Pool, migrations.Options{Schema: c.schema, Logger: quiet.Logger})
	must(t, err)
	_, err = m.Up(t.Context())
	must(t, err)
	s := serve(nil, func(config *webui.Config) {
		config.Schema, config.Insecure, config.Actions, config.Refresh = c.schema, false, true, time.Second
		config.Authenticate = func(r *http.Request) (webui.User, error) {
			return webui.User{Name: "ann", Role: webui.Operator}, nil
		}
	})
	t.Cleanup(s.Close)
	s.Config.Handler = c.noting(s.Config.Handler, routes)
	c.tab = newTab(t, s)
	return c
}

// routes are the routes of actions, as the source has them, with the verbs that each takes.
func routes(t *testing.T) map[string][]string {
	t.Helper()
	var source strings.Builder
	files, err := filepath.Glob("../../webui/*.go")
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		must(t, err)
		source.Write(text)
	}
	all := func(pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source.String(), -1) {
			found = append(found, m[1])
		}
		return found
	}
	ofRows := all(`\{Name: "(\w+)", Label: "`)
	less := func(verb ...string) []string {
		return slices.DeleteFunc(slices.Clone(ofRows), func(v string) bool { return slices.Contains(verb, v) })
	}
	verbs := map[string][]string{
		"/t/{table}/row/{id}/{verb}": ofRows,
		// What moves takes a time, and rows that are named. Keys are released one by one.
		"/t/{table}/{state}/{verb}":        less("reschedule", "unblock"),
		"/t/{table}/chosen/{state}/{verb}": less("unblock"),
		"/queues/{verb}":                   {"pause", "resume", "limit"},
		"/topics/{verb}":                   {"pause", "resume"},
		"/schedules/{verb}":                {"pause", "resume", "trigger"},
		"/schedules/backfill":              {""},
		"/audit/{action}/stop":             {""},
		"/audit/{action}/resume":           {""},
	}
	found := all(`h\.change\("([^"]+)"`)
	if len(found) != len(verbs) || len(ofRows) < 7 {
		t.Errorf("the routes of actions are %q, and the verbs of rows %q: which are new?", found, ofRows)
	}
	for _, route := range found {
		if verbs[route] == nil {
			t.Errorf("nobody clicks on %s", route)
		}
	}
	return verbs
}

// noting notes actions that were carried out.
func (c *counter) noting(next http.Handler, routes map[string][]string) http.Handler {
	mux := http.NewServeMux()
	for route := range routes {
		mux.HandleFunc("POST "+prefix+route, func(_ http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done[route+" "+r.PathValue("verb")] = true
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noted := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(noted, r)
		if r.Method == http.MethodPost && noted.status == http.StatusSeeOther {
			mux.ServeHTTP(noted, r)
		}
	})
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.NewResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// on is a statement that names tables of the counter, which have a % before their names.
func (c *counter) on(statement string) string {
	return strings.ReplaceAll(statement, "%", c.schema+".")
}

func (c *counter) run(statement string, args ...any) {
	c.Helper()
	_, err := c.pool.Exec(c.Context(), c.on(statement), args...)
	must(c, err)
}

// holds waits until a condition of the database is true.
func (c *counter) holds(condition string, args ...any) {
	c.Helper()
	var err error
	if !pgtest.Await(patience, func() (holds bool) {
		err = c.pool.QueryRow(c.Context(), c.on("SELECT "+condition), args...).Scan(&holds)
		return holds || err != nil
	}) || err != nil {
		c.Fatalf("%s: %v\non %s:\n%s", condition, err, value[string](c.tab, "location.href"),
			value[string](c.tab, "document.body.innerText"))
	}
}

// elsewhere is true once what was clicked on has led to a page, be it the same one again.
const elsewhere = "window.stays === undefined"

// click clicks on what a selector finds, once what it is in was opened, and waits until an expression is true.
func (c *counter) click(selector, condition string, values ...string) {
	c.Helper()
	open := fmt.Sprintf(`{ window.stays = true; const found = document.querySelector(%q);
		for (let e = found; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;`, selector)
	for i := 0; i < len(values); i += 2 { // fields beside it
		open += fmt.Sprintf(` found.form.querySelector('[name=%s]').value = %q;`, values[i], values[i+1])
	}
	c.do(fmt.Sprintf(`document.querySelector(%q)`, selector) + " !== null")
	c.do(condition, script(open+" found.click(); }"))
}

// rows are how rows are made about which a verb decides, and what is true of them then.
var rows = map[string]struct{ state, columns, is string }{
	"redrive":    {"failed", "3, 1, now(), now(), now()", "bool_and(status = 0 AND attempts = 0)"},
	"run_now":    {"scheduled", "0, 0, now() + interval '1 day', NULL, NULL", "bool_and(due_at <= now())"},
	"reschedule": {"scheduled", "0, 0, now() + interval '1 day', NULL, NULL", "bool_and(due_at = '2030-01-01T00:00Z')"},
	"cancel":     {"ready", "0, 0, now(), NULL, NULL", "bool_and(cancelled_at IS NOT NULL)"},
	"discard":    {"failed", "3, 1, now(), now(), now()", "bool_and(cancelled_at IS NOT NULL)"},
	"delete":     {"done", "2, 1, now(), now(), NULL", "count(*) = 0"},
	"unblock":    {"failed", "", ""},
}

// write writes some rows about which a verb decides. Their topic tells them from others.
func (c *counter) write(verb, topic string, n int) (id uuid.UUID) {
	c.Helper()
	must(c, c.pool.QueryRow(c.Context(), c.on(`WITH w AS (
		INSERT INTO %outbox (topic, payload, status, attempts, due_at, completed_at, failed_at)
		SELECT $1, '', `+rows[verb].columns+` FROM generate_series(1, $2::int) RETURNING id) SELECT id FROM w LIMIT 1`),
		topic, n).Scan(&id))
	return id
}

// Everything that can be done is done in a browser, and takes effect: to one row, to those that are chosen and to those
// that match, to queues, topics and schedules, and to what is under way. The routes are those that there are.
func TestEveryActionInABrowser(t *testing.T) {
	t.Parallel()
	want := routes(t)
	c := newCounter(t, want)
	for _, verb := range want["/t/{table}/row/{id}/{verb}"] {
		if rows[verb].state == "" {
			t.Fatalf("nobody clicks on %s", verb)
		}
		if verb == "unblock" {
			c.unblocks()
			continue
		}
		c.ofRow(verb)
		c.ofChosen(verb)
		if verb != "reschedule" {
			c.ofMatching(verb)
		}
	}
	c.rules()
	c.schedules()
	c.interrupted()
	c.remedies()
	for route, verbs := range want {
		for _, verb := range verbs {
			if !c.done[route+" "+verb] {
				t.Errorf("nobody has clicked on %s %s", route, verb)
			}
		}
	}
	c.holds("count(*) > 30 AND bool_and(who = 'ann') FROM %audit")
}

func (c *counter) ofRow(verb string) {
	c.Helper()
	topic := "row " + verb
	id := c.write(verb, topic, 1)
	c.open("/t/outbox/row/"+id.String(), topic)
	var fields []string
	if verb == "reschedule" {
		fields = []string{"at", "2030-01-01T00:00"}
	}
	c.click(`form[action$="/`+verb+`"] button`, elsewhere, fields...)
	c.holds(rows[verb].is+" FROM %outbox WHERE topic = $1", topic)
}

func (c *counter) ofChosen(verb string) {
	c.Helper()
	topic := "chosen " + verb
	c.write(verb, topic, 3)
	c.open("/t/outbox/"+rows[verb].state+"?topic="+url.QueryEscape(topic), topic)
	boxes := `document.querySelectorAll('td.id input[type="checkbox"]')`
	c.do(boxes+`.length === 3 && [...`+boxes+`].every(b => b.checked)`, script(boxes+`.forEach(b => b.click())`))
	c.click(`#chosen button[formaction$="/`+verb+`"]`,
		`document.querySelector("main").innerText.includes("the 3 rows that you have chosen")`)
	var fields []string
	if verb == "reschedule" {
		fields = []string{"at", "2030-01-01T00:00"}
	}
	c.click("main form.deed button", `document.querySelector("h1").innerText === "outbox"`, fields...)
	c.holds(rows[verb].is+" FROM %outbox WHERE topic = $1", topic)
}

func (c *counter) ofMatching(verb string) {
	c.Helper()
	topic := "matching " + verb
	c.write(verb, topic, 4)
	c.open("/t/outbox/"+rows[verb].state+"?topic="+url.QueryEscape(topic), topic)
	c.click(`.deeds a[href*="/`+verb+`"]`, `document.querySelector("main form button") !== null &&
		document.querySelector("main").innerText.includes(" 4 rows that are")`)
	c.click("main form button", `location.pathname.includes("/audit/") &&
		document.querySelector("main").innerText.includes("Done. 4 of 4 rows")`)
	c.holds(rows[verb].is+" FROM %outbox WHERE topic = $1", topic)
}

// blocked writes rows of a key whose first is a dead letter, which the others wait for.
func (c *counter) blocked(key string) (id uuid.UUID) {
	c.Helper()
	c.run(`INSERT INTO %outbox (topic, concurrency_key, key_limit, key_policy, payload)
		SELECT 'keyed', $1, 0, 1, '' FROM generate_series(1, 3)`, key)
	must(c, c.pool.QueryRow(c.Context(), c.on(`SELECT id FROM %outbox WHERE concurrency_key = $1 ORDER BY key_seq
		LIMIT 1`), key).Scan(&id))
	c.run(`UPDATE %outbox SET waiting = false, status = 3, attempts = 1, completed_at = now(), failed_at = now(),
		last_error = 'no route' WHERE id = $1`, id)
	return id
}

// unblocks releases what waits behind a dead letter on its own page, and on that of the keys, where it is redriven,
// too.
func (c *counter) unblocks() {
	c.Helper()
	id := c.blocked("on its page")
	c.open("/t/outbox/row/"+id.String(), "no route")
	c.click(`form[action$="/unblock"] button`, elsewhere)
	c.holds("count(*) = 1 FROM %audit WHERE verb = 'unblock' AND rows = 1")
	c.blocked("unblocked")
	id = c.blocked("redriven")
	c.open("/keys", "Blocked by a dead letter")
	c.click(`button[aria-label="Unblock unblocked"]`, elsewhere)
	c.holds("count(*) = 2 FROM %audit WHERE verb = 'unblock' AND rows = 1")
	c.open("/keys", "redriven")
	c.click(`button[aria-label="Redrive the dead letter of redriven"]`, elsewhere)
	c.holds("status = 0 FROM %outbox WHERE id = $1", id)
}

// rules pauses, limits and resumes a queue, and pauses and resumes a topic.
func (c *counter) rules() {
	c.Helper()
	c.run(`INSERT INTO %jobs (kind, queue, priority, args) VALUES ('charge', 'mail', 2, '')`)
	c.write("cancel", "paper", 1)
	c.open("/queues", "mail")
	c.click(`form[action$="queues/pause"] button[aria-label="Pause queue mail"]`, elsewhere)
	c.holds("count(*) = 1 FROM %jobs_queue WHERE name = 'mail' AND paused")
	c.open("/queues", "paused")
	c.click(`button[aria-label="Limit queue mail"]`, elsewhere, "max_running", "3")
	c.holds("count(*) = 1 FROM %jobs_queue WHERE name = 'mail' AND max_running = 3")
	c.open("/queues", "at most 3 running")
	c.click(`button[aria-label="Resume queue mail"]`, elsewhere)
	c.holds("count(*) = 0 FROM %jobs_queue WHERE name = 'mail' AND paused")
	c.open("/queues", "Pause a topic")
	c.click(`form[action$="topics/pause"]:has([value="outbox"]) button`, elsewhere, "topic", "paper")
	c.holds("count(*) = 1 FROM %outbox_topic WHERE topic = 'paper' AND paused")
	c.open("/queues", "Topics that are paused")
	c.click(`button[aria-label="Resume topic paper"]`, elsewhere)
	c.holds("count(*) = 0 FROM %outbox_topic WHERE topic = 'paper' AND paused")
}

// schedules triggers, pauses, resumes and backfills a schedule.
func (c *counter) schedules() {
	c.Helper()
	client, err := jobs.Open(jobs.Options{Schema: c.schema, Registry: shop.kinds, Telemetry: quiet})
	must(c, err)
	must(c, workqueue.InTx(c.Context(), c.pool, func(tx workqueue.Tx) error {
		return client.Schedules().Put(c.Context(), tx, jobs.Schedule{Name: "monthly-report", Expr: "0 6 1 * *",
			Zone: "Europe/Zagreb", Args: report{Month: "last"}})
	}))
	c.open("/schedules", "monthly-report")
	c.click(`button[aria-label="trigger monthly-report"]`, elsewhere)
	c.holds("count(*) = 1 FROM %audit WHERE verb = 'trigger'")
	for _, verb := range []string{"pause", "resume"} {
		c.open("/schedules", "monthly-report")
		c.click(`button[aria-label="`+verb+` monthly-report"]`, elsewhere)
		c.holds("count(*) = 1 FROM %audit WHERE target = 'jobs_schedule' AND verb = $1", verb)
	}
	c.backfills()
	c.holds("count(*) = 2 FROM %jobs WHERE schedule = 'monthly-report'")
}

// interrupted stops an action by a filter while it is under way, and resumes it.
func (c *counter) interrupted() {
	c.Helper()
	id := c.write("discard", "many", 2500)
	tx, err := c.pool.Begin(c.Context())
	must(c, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(c.Context(), c.on("SELECT FROM %outbox WHERE topic = 'many' FOR UPDATE"))
	must(c, err)
	c.open("/t/outbox/failed?topic=many", id.String()[:8])
	c.click(`.deeds a[href*="/discard"]`, `document.querySelector("main").innerText.includes("2,500 rows that are")`)
	c.click("main form button", `document.querySelector("main").innerText.includes("Running.")`)
	c.everyLook()
	c.click(`form[action$="/stop"] button`, elsewhere)
	c.holds("count(*) = 1 FROM %audit WHERE event = 'stopped'")
	must(c, tx.Rollback(c.Context()))
	c.do(`document.querySelector("main").innerText.includes("Stopped.")`)
	c.everyLook()
	c.click(`form[action$="/resume"] button`,
		`document.querySelector("main").innerText.includes("Done. 2,500 of 2,500 rows")`)
	c.holds("bool_and(cancelled_at IS NOT NULL) FROM %outbox WHERE topic = 'many'")
}

// remedies does what the overview offers about findings.
func (c *counter) remedies() {
	c.Helper()
	c.run(`UPDATE %jobs SET due_at = now() - interval '2 hours' WHERE status = 0 AND queue = 'mail'`)
	c.run(`UPDATE %jobs_queue SET paused = true, changed_at = now() - interval '2 hours' WHERE name = 'mail'`)
	c.run(`INSERT INTO %outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
		SELECT 'poisoned', '', 3, 1, now(), now(), 'no route ' || i FROM generate_series(1, 200) AS i`)
	c.open("/", "the queue is paused")
	c.click(`form[action$="queues/resume"] button`, elsewhere)
	c.holds("count(*) = 0 FROM %jobs_queue WHERE name = 'mail' AND paused")
	c.open("/", "dead letters within an hour")
	c.click(`a[href*="/failed/redrive?"]`, `document.querySelector("h1").innerText === "Redrive rows of outbox?"`)
	c.click("main form button", `document.querySelector("main").innerText.includes("Done. 200 of 200 rows")`)
	c.holds("bool_and(status = 0) FROM %outbox WHERE topic = 'poisoned'")
}
