package webui_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

var attribute = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// crawl follows all links from the overview and returns the pages by their addresses below the server's. It fails the
// test if a link leads out of the prefix, or not to a page.
func (s *site) crawl() map[string]string {
	s.Helper()
	pages := map[string]string{}
	for next := []string{prefix + "/"}; len(next) > 0; next = next[1:] {
		address := next[0]
		if _, seen := pages[address]; seen {
			continue
		}
		if !strings.HasPrefix(address, prefix+"/") {
			s.Errorf("a link leads to %s", address)
			continue
		}
		a := s.get(strings.TrimPrefix(address, prefix))
		pages[address] = a.body
		if a.status != http.StatusOK {
			s.Errorf("%s has status %d:\n%s", address, a.status, a.body)
		}
		base, err := url.Parse(address)
		must(s, err)
		for _, found := range attribute.FindAllStringSubmatch(a.body, -1) {
			link, err := url.Parse(html.UnescapeString(found[1]))
			must(s, err)
			to := base.ResolveReference(link)
			to.Fragment = ""
			if path := to.String(); path != prefix+"/find" && !strings.Contains(path, "after=") || len(pages) < 500 {
				next = append(next, path)
			}
		}
	}
	return pages
}

// Every page is reached by links, below any prefix, and has what makes it usable without script and by keyboard.
func TestEveryLinkLeadsToAPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.record()
	s.read()
	pages := s.crawl()
	if len(pages) < 60 {
		t.Errorf("only %d pages were found", len(pages))
	}
	for _, want := range []string{"/", "/dead", "/queues", "/schedules", "/history?table=jobs",
		"/t/postcards/ready", "/t/jobs/failed", "/t/jobs_schedule/ready"} {
		if _, ok := pages[prefix+want]; !ok {
			t.Errorf("no link leads to %s", want)
		}
	}
	for address, body := range pages {
		if strings.Contains(address, "/assets/") {
			continue
		}
		for _, want := range []string{`<html lang="en">`, `<main id="main"`, `href="#main"`, "<h1>", "</html>"} {
			if strings.Count(body, want) != 1 {
				t.Errorf("%s has %d times %s", address, strings.Count(body, want), want)
			}
		}
		if strings.Contains(body, "style=") || strings.Contains(body, "onclick") || strings.Contains(body, "<script>") {
			t.Errorf("%s has a style or a script of its own", address)
		}
	}
}

// A prefix without its slash leads to the overview, and a proxy may remove the prefix.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := webui.New(webui.Config{Pool: s.db.Pool, Schema: s.db.Schema, Insecure: true})
	must(t, err)
	for path, want := range map[string]string{"/a/b": "./b/", "/x?q=1": "./x/"} {
		stripped, _, _ := strings.Cut(path, "?")
		r, w := newRequest(path), newRecorder()
		http.StripPrefix(stripped, page).ServeHTTP(w, r)
		if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != want {
			t.Errorf("%s leads to %q with status %d", path, w.Header().Get("Location"), w.Code)
		}
	}
	w := newRecorder()
	page.ServeHTTP(w, newRequest("/t/jobs"))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../t/jobs/ready" {
		t.Errorf("a table leads to %q with status %d", w.Header().Get("Location"), w.Code)
	}
}

func TestTheOverviewShowsFindingsAndDepths(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	body := s.read().shows("/", http.StatusOK, "expired", `class="card finding critical"`, "postcards", "What to do:",
		`<td class="n bad"><a href="./t/jobs/failed">3</a></td>`, `<td class="n"><a href="./t/jobs/scheduled">3</a></td>`)
	critical, warning := strings.Index(body, "finding critical"), strings.LastIndex(body, "finding warning")
	if last := strings.LastIndex(body, "finding critical"); warning > 0 && (critical > warning || last > warning) {
		t.Error("the worst findings are not first")
	}
}

func TestRowsAreListedFilteredAndPaged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.read()
	for state, rows := range map[string]int{"ready": 3, "scheduled": 3, "waiting": 0, "in_progress": 6, "expired": 3,
		"done": 3, "failed": 3, "cancelled": 3} {
		body := s.shows("/t/jobs/"+state, http.StatusOK, `aria-current="page"`)
		if n := strings.Count(body, `<td class="id">`); n != rows {
			t.Errorf("%d rows are %s, want %d", n, state, rows)
		}
	}
	s.shows("/t/jobs/ready", http.StatusOK, `Dead letters <span class="depth">3</span>`, ">greet<", ">mail<")
	s.lacks("/t/jobs/ready", `&#34;to&#34;`) // payloads
	for query, rows := range map[string]int{"kind=greet": 3, "kind=other": 0, "queue=mail": 3, "error=53": 1,
		"newer=1h": 3, "priority=2": 3, "priority=1": 0, "older=1h": 0,
		"kind=greet&error=smtp&newer=1d&older=0s": 3, "kind=": 3, "limit=2": 2} {
		body := s.shows("/t/jobs/failed?"+query, http.StatusOK)
		if n := strings.Count(body, `<td class="id">`); n != rows {
			t.Errorf("%s selects %d rows, want %d", query, n, rows)
		}
	}
	body := s.shows("/t/jobs/failed?limit=2&kind=greet", http.StatusOK, "Next page", `value="greet"`)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(body)
	if next == nil {
		t.Fatal("there is no next page")
	}
	body = s.shows("/t/jobs/"+html.UnescapeString(next[1]), http.StatusOK, "First page")
	if n := strings.Count(body, `<td class="id">`); n != 1 || strings.Contains(body, "Next page") {
		t.Errorf("the last page has %d rows", n)
	}
	s.shows("/t/outbox/failed", http.StatusOK, "No row has failed for good.")
	s.shows("/t/jobs/failed?kind=none", http.StatusOK, "Show all")
}

// A page that was not searched to the end says so, and goes on where it ended.
func TestASearchSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec("ALTER TABLE {schema}.outbox DISABLE TRIGGER USER")
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, created_at, due_at, completed_at)
		SELECT CASE WHEN i = 1 THEN 'rare' ELSE 'noise' END, '', 2, 1, at, at, at
		FROM generate_series(1, 6000) AS i, LATERAL (SELECT now() - (6000 - i) * interval '1 s' AS at) AS a`)
	s.exec("ALTER TABLE {schema}.outbox ENABLE TRIGGER USER")
	body := s.shows("/t/outbox/done?topic=rare", http.StatusOK, "5,000 rows were searched", "back to",
		"Go on searching", "There are more.")
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(body)
	body = s.shows("/t/outbox/"+html.UnescapeString(next[1]), http.StatusOK)
	if n := strings.Count(body, `<td class="id">`); n != 1 {
		t.Errorf("%d rows were found:\n%s", n, body)
	}
}

func TestARowIsShownInFull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.shows("/t/outbox/row/"+s.id("SELECT id FROM {schema}.outbox"), http.StatusOK, ">hello</pre>", "text, 5 bytes.",
		"&#34;traceparent&#34;: &#34;00-1&#34;", `<a href="../../../t/outbox/ready?topic=orders">`)
	s.shows("/t/postcards/row/"+s.id("SELECT id FROM {schema}.postcards"), http.StatusOK, "JSON", "Main Street 1",
		"&#34;lines&#34;: [\n    1,")
	s.shows("/t/jobs/row/"+s.id("SELECT id FROM {schema}.jobs WHERE status = 3 LIMIT 1"), http.StatusOK,
		"no such mailbox", "1 of 30 attempts", ">failed for good</span>")
	s.shows("/t/jobs/row/"+s.id("SELECT id FROM {schema}.jobs WHERE status = 0 AND due_at < now() LIMIT 1"),
		http.StatusOK, "Held back by its queue <bdi>mail</bdi>", "It is paused", "jobs resume mail")
	big := s.id(`INSERT INTO {schema}.outbox (topic, payload)
		VALUES ('big', convert_to(repeat('é', 100000), 'UTF8')) RETURNING id`)
	body := s.shows("/t/outbox/row/"+big, http.StatusOK, "text, 200 kB, of which the first 65 kB are shown")
	if n := strings.Count(body, "é"); n != 32768 {
		t.Errorf("%d characters are shown", n)
	}
	binary := s.id(`INSERT INTO {schema}.outbox (topic, payload) VALUES ('binary', '\xff00fe') RETURNING id`)
	s.shows("/t/outbox/row/"+binary, http.StatusOK, "ff 00 fe", "binary, 3 bytes.")
	empty := s.id(`INSERT INTO {schema}.outbox (topic, payload) VALUES ('empty', '') RETURNING id`)
	s.shows("/t/outbox/row/"+empty, http.StatusOK, "It is empty.")
}

func TestTheProcessOfARowIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`CALL {schema}.process_beat(1759354471380, 'crab:17', 'Go', '1.2', '[]')`)
	id := s.id(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, locked_until, owner_token)
		VALUES ('t', '', 1, 1, now() + interval '1 min', '0199a1b2-c3d4-4000-8000-000000000000') RETURNING id`)
	s.shows("/t/outbox/row/"+id, http.StatusOK, "crab:17", "In progress")
}

func TestDeadLettersAreGroupedByCause(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/dead", http.StatusOK, "There are no dead letters.")
	s.fill()
	body := s.shows("/dead", http.StatusOK, "smtp …: no such mailbox", `<td class="n">3</td>`)
	link := regexp.MustCompile(`href="\./(t/jobs/failed\?error=[^"]*)"`).FindStringSubmatch(body)
	if link == nil {
		t.Fatalf("no link leads to the rows of a cause:\n%s", body)
	}
	if n := strings.Count(s.shows("/"+html.UnescapeString(link[1]), http.StatusOK), `<td class="id">`); n != 3 {
		t.Errorf("the cause leads to %d rows", n)
	}
}

func TestAnIDIsFoundInAnyTable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	for _, table := range []string{"jobs", "outbox", "postcards"} {
		id := s.id("SELECT id FROM {schema}." + table + " LIMIT 1")
		for _, asked := range []string{id, "%20" + strings.ToUpper(id) + "%20"} {
			a := s.get("/find?q=" + asked)
			to := a.header.Get("Location")
			if a.status != http.StatusSeeOther || to != "./t/"+table+"/row/"+id {
				t.Errorf("%s leads to %q with status %d", asked, to, a.status)
			}
		}
	}
	s.shows("/find?q=01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17", http.StatusOK, "No table has a row")
	s.shows("/find?q=order-17", http.StatusOK, "is no id", "/t/jobs/ready?key=order-17")
	s.shows("/find", http.StatusOK, "Enter the id")
}

func TestQueuesShowWhatTheyHaveToDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.read().shows("/queues", http.StatusOK, "No table has live rows")
	s.fill()
	s = serve(t, s.db)
	s.read().shows("/queues", http.StatusOK, ">mail<", ">paused<", "t/jobs/ready?queue=mail",
		"t/outbox/ready?topic=orders")
}

func TestSchedulesShowWhenTheyFire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/schedules", http.StatusOK, "There are no schedules.", "jobs_schedule", "timers_schedule")
	s.schedules(250, "nightly", evil)
	body := s.shows("/schedules", http.StatusOK, ">nightly001<", "30 4 * * *", "Europe/Zagreb", ">paused<", ">late<",
		"Next page", "&lt;script&gt;alert")
	if strings.Contains(body, "<script>alert") || strings.Contains(body, ">nightly201<") {
		t.Error("a page runs script, or has too many schedules")
	}
	next := regexp.MustCompile(`rel="next" href="\./([^"]*)"`).FindStringSubmatch(body)
	s.shows("/"+html.UnescapeString(next[1]), http.StatusOK, ">nightly201<", ">nightly250<")
	s.shows("/schedules?table=timers_schedule&after=z", http.StatusOK, "There are no more schedules.")
	s.shows("/schedules?table=jobs", http.StatusOK, "No table that you see holds schedules.")
	s.shows("/schedules?after=%ff", http.StatusOK, "The address is wrong")
	s.shows("/find?q="+s.id("SELECT id FROM {schema}.jobs_schedule LIMIT 1"), http.StatusSeeOther)
}

// schedules writes schedules of jobs, of which the first is paused, the second late, and the third has an error.
func (s *site) schedules(n int, name, failure string) {
	s.Helper()
	s.exec(`INSERT INTO {schema}.jobs_schedule (name, expr, zone, misfire, overlap, template, grace, jitter, fired, skipped,
			cap, paused, next_at, last_error)
		SELECT $2::text || to_char(i, 'FM000'), '30 4 * * *', 'Europe/Zagreb', 'once', 'allow', '{}', 60000000000, 0, 7, 0,
			10, i = 1, now() + CASE WHEN i = 2 THEN interval '-1 h' ELSE interval '1 h' END, CASE WHEN i = 3 THEN $3::text END
		FROM generate_series(1, $1::int) AS i`, n, name, failure)
}

// A table that only says that it is one of txwork does not keep the others from being searched.
func TestAForeignTableIsNotSearched(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.exec("CREATE TABLE {schema}.bills (number int)")
	s.exec("COMMENT ON TABLE {schema}.bills IS 'txwork core 9'")
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	if a := s.get("/find?q=" + id); a.header.Get("Location") != "./t/outbox/row/"+id {
		t.Errorf("a row is not found: status %d, %s", a.status, content(a.body))
	}
	s.shows("/find?q=01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17", http.StatusOK, "No table has a row", "Not searched", "bills")
}

// What other sessions run may have values of any table.
func TestAUserOfSomeTablesSeesNoStatements(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tx, err := s.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+s.db.Schema+".jobs IN ACCESS EXCLUSIVE MODE /* secret */")
	must(t, err)
	some := serve(t, s.db, func(c *webui.Config) {
		c.Pool = pgtest.NewPool(t, s.db)
		c.StatementTimeout = 3 * time.Second
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
			return webui.User{Name: "ann", Tables: []string{"jobs"}}, nil
		}
	})
	some.read().shows("/", http.StatusOK, "A table is locked")
	some.lacks("/", "secret", "LOCK TABLE")
}

// A row has all that is stored on one line of time, and says what is not.
func TestATimeLineHasWhatIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.letters(1, "mail")
	id := s.id("SELECT id FROM {schema}.jobs WHERE status = 3 AND cancelled_at IS NULL LIMIT 1")
	s.exec(`INSERT INTO {schema}.jobs_attempt (job_id, attempt, ended_at, outcome, error)
		SELECT $1, n, clock_timestamp(), 'failed', $2 FROM generate_series(1, 60) AS n`, id, evil)
	s.exec(`INSERT INTO {schema}.jobs_step (job_id, name, result) VALUES ($1, 'charge the card', '')`, id)
	body := s.shows("/t/jobs/row/"+id, http.StatusOK, "step done", "charge the card", "attempt 60: failed",
		"attempt 12: failed", "the latest 50 are shown", "When attempts began is not stored",
		"failed for good", "&lt;script&gt;alert")
	if strings.Contains(body, "attempt 11: failed") ||
		strings.Index(body, ">written<") > strings.Index(body, "attempt 12") {
		t.Errorf("the attempts are not bounded, or not in order:\n%s", content(body))
	}
	s.shows("/t/outbox/row/"+s.id("SELECT id FROM {schema}.outbox WHERE status = 3"), http.StatusOK,
		"Of attempts, only their number and the last error are stored")
	waits := s.id("SELECT id FROM {schema}.jobs WHERE due_at > now() LIMIT 1")
	s.shows("/t/jobs/row/"+waits, http.StatusOK, `class="later"`)
	s.lacks("/t/jobs/row/"+waits, "not stored")
}

// A cause says when it was seen first and last, and how often since.
func TestCausesSayWhenTheyWereSeen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.letters(2, "mail")
	s.exec(`UPDATE {schema}.outbox SET failed_at = now() - interval '3 h', completed_at = now() - interval '3 h'
		WHERE id = (SELECT id FROM {schema}.outbox ORDER BY id LIMIT 1)`)
	s.shows("/dead", http.StatusOK, "last 3 h", "<td class=\"n\">3 h ago</td>", "between 3 h and",
		`<path d="M2 20v-20M117 20v-20"/>`)
}

// What is safe is a button on the overview; what changes many rows asks first.
func TestFindingsHaveTheirRemedies(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.fill()
	s.exec("UPDATE {schema}.jobs SET due_at = now() - interval '2 h' WHERE status = 0")
	s.letters(100, "mail")
	s.as("ann").read()
	s.as("ann").shows("/", http.StatusOK, `action="./queues/resume"><input type="hidden" name="queue" value="mail">`,
		"t/outbox/failed/redrive?error=no&#43;route&amp;newer=1h&amp;topic=mail")
	s.as("vic").lacks("/", "<form method=\"post\"", "/redrive")
}
