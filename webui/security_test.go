package webui_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

func newRequest(path string) *http.Request    { return httptest.NewRequest(http.MethodGet, path, nil) }
func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// evil is what a row may contain to run script, to leave an attribute, or to mislead the eye.
const evil = "</pre><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{.}}javascript:alert(1)\u202e\u0007"

var value = regexp.MustCompile(`value="[^"]*"`)

func TestNothingThatARowSaysRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`INSERT INTO {schema}.outbox (topic, key, payload, headers) VALUES ($1, $1, convert_to($1, 'UTF8'),
		jsonb_build_object($1::text, $1::text))`, evil)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
		VALUES ($1, '', 3, 1, now(), now(), $1)`, evil)
	s.exec(`INSERT INTO {schema}.postcards (address, page) VALUES ($1, jsonb_build_object($1::text, $1::text))`, evil)
	s.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args) VALUES ('k', 'q', 2,
		convert_to($1, 'UTF8'))`, evil)
	s.exec(`CALL {schema}.process_beat(1759354471380, $1, 'Go', $1, '[]')`, evil[:60])
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, locked_until, owner_token)
		VALUES ('t', '', 1, 1, now() + interval '1 min', '0199a1b2-c3d4-4000-8000-000000000000')`)
	s.read()
	pages := s.crawl()
	query := strings.NewReplacer("%", "%25", " ", "%20", "#", "%23", "&", "%26", "+", "%2B", "\u0007", "%07").
		Replace(evil)
	for _, path := range []string{"/t/outbox/ready?topic=" + query, "/t/outbox/ready?after=" + query,
		"/find?q=" + query, "/t/outbox/ready?limit=" + query, "/t/outbox/ready?newer=" + query,
		"/t/" + query + "/ready", "/t/outbox/" + query, "/t/outbox/row/" + query, "/" + query} {
		pages[path] = s.get(path).body
	}
	shown := 0
	for address, body := range pages {
		body = value.ReplaceAllString(body, "") // the fields of the filter keep what they are given
		for _, text := range []string{"<script>alert", "<img src=x", "href=\"javascript:", "\u202e", "\u0007"} {
			if strings.Contains(body, text) {
				t.Errorf("%s has %q", address, text)
			}
		}
		if strings.Contains(body, "&lt;script&gt;alert") {
			shown++
		}
	}
	if shown < 8 {
		t.Errorf("only %d pages show the texts", shown)
	}
}

func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/", "/t/jobs/ready", "/none", "/t/none/ready", "/assets/style.css", "/assets/none",
		"/t/jobs", "/../x"} {
		header := s.get(path).header
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "same-origin", "Content-Security-Policy": "frame-ancestors 'none'"} {
			if !strings.Contains(header.Get(name), want) && path != "/../x" { // the mux of the test answers that
				t.Errorf("%s has %s %q, want %q", path, name, header.Get(name), want)
			}
		}
		if policy := header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
	}
	if cache := s.get("/t/jobs/ready").header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("a page is kept: %q", cache)
	}
}

// There is nothing to do by hand, from this site or another.
func TestNothingCanBeChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	before := s.id("SELECT md5(string_agg(j::text, '' ORDER BY id)) FROM {schema}.jobs AS j")
	id := s.id("SELECT id FROM {schema}.jobs WHERE status = 3 LIMIT 1")
	for _, path := range []string{"/", "/t/jobs/failed", "/t/jobs/row/" + id, "/t/jobs/row/" + id + "/redrive",
		"/t/jobs/failed/discard", "/find?q=x", "/assets/style.css", "/none"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			if a := s.send(method, path, nil); a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s has status %d", method, path, a.status)
			}
			foreign := http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
			if a := s.send(method, path, foreign); a.status != http.StatusForbidden {
				t.Errorf("%s %s of another site has status %d", method, path, a.status)
			}
		}
	}
	if s.id("SELECT md5(string_agg(j::text, '' ORDER BY id)) FROM {schema}.jobs AS j") != before {
		t.Error("rows were changed")
	}
}

func TestPathsLeadNowhereElse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := webui.New(webui.Config{Pool: s.db.Pool, Schema: s.db.Schema, Insecure: true})
	must(t, err)
	for _, path := range []string{"/assets/../accounts.go", "/assets/%2e%2e/accounts.go", "/assets/..%2faccounts.go",
		"/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/assets//etc/passwd", "//evil.example/t/jobs", "/t//ready",
		"/t/jobs/", "/t/pg_class/ready", "/t/jobs_attempt/ready", "/t/jobs;drop/ready", "/t/JOBS/ready",
		"/t/jobs%00/ready", "/t/" + strings.Repeat("x", 5000) + "/ready", "/assets/doc.go", "/assets/", "/..", "/.",
		"/%2f%2fevil.example"} {
		w := newRecorder()
		page.ServeHTTP(w, newRequest(path))
		if w.Code != http.StatusNotFound || w.Header().Get("Location") != "" {
			t.Errorf("%s has status %d and leads to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
}

func TestContentIsHiddenFromViewers(t *testing.T) {
	t.Parallel()
	var user webui.User
	s := newSite(t, func(c *webui.Config) {
		c.Insecure, c.HideContent = false, true
		c.Authenticate = func(*http.Request) (webui.User, error) { return user, nil }
	})
	s.fill()
	path := "/t/outbox/row/" + s.id("SELECT id FROM {schema}.outbox")
	s.shows(path, http.StatusOK, "5 bytes, shown to operators only", "Headers are shown to operators only")
	s.lacks(path, "hello", "traceparent")
	user.Role = webui.Operator
	s.shows(path, http.StatusOK, "hello", "traceparent")
}

// Every statement of a page is in a transaction that is read-only and has a timeout.
func TestPagesOnlyRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	pool, statements := recording(t, s.db)
	s = serve(t, s.db, func(c *webui.Config) { c.Pool, c.Refresh = pool, pgtest.Patience })
	s.read()
	statements.take() // the survey and the doctor use transactions of their own, which other tests look at
	id := s.id("SELECT id FROM {schema}.jobs WHERE status = 1 LIMIT 1")
	for _, path := range []string{"/t/jobs/ready", "/t/jobs/failed?error=x", "/t/jobs/row/" + id, "/find?q=x", "/dead",
		"/find?q=" + id} {
		statements.take()
		s.get(path)
		within, bounded := false, false
		for _, text := range statements.take() {
			lower := strings.ToLower(text)
			switch {
			case strings.HasPrefix(lower, "begin"):
				within, bounded = true, strings.Contains(lower, "statement_timeout")
				if !strings.Contains(lower, "read only") {
					t.Errorf("%s: a transaction may write: %s", path, text)
				}
			case lower == "commit" || lower == "rollback":
				within = false
			case strings.Contains(lower, "statement_timeout"):
				bounded = true
			case !within || !bounded:
				t.Errorf("%s: no transaction bounds %s", path, text)
			}
		}
	}
}

// However many look at once, the tables are surveyed once.
func TestViewersShareOneSurvey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	pool, statements := recording(t, s.db)
	s = serve(t, s.db, func(c *webui.Config) { c.Pool = pool })
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { s.get("/") })
	}
	all.Wait()
	surveys := 0
	for _, text := range statements.take() {
		if strings.Contains(text, "AS oldest_expired") && strings.Contains(text, `"jobs"`) {
			surveys++
		}
	}
	if surveys < 1 || surveys > 4 { // of the dashboard and of its doctor, each of which may look twice
		t.Errorf("30 viewers cost %d surveys of the jobs", surveys)
	}
}

// A browser gets all of ours at once, and keeps it.
func TestAssetsAreSmall(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for _, name := range []string{"style.css", "script.js", "txwork.svg"} {
		text, err := os.ReadFile("assets/" + name)
		must(t, err)
		w.Write(text)
	}
	must(t, w.Close())
	t.Logf("%d bytes, compressed", b.Len())
	if b.Len() > 150<<10 {
		t.Errorf("the assets have %d bytes, compressed", b.Len())
	}
	s := newSite(t)
	body := s.get("/").body
	at := strings.Index(body, "assets/style.css?v=")
	style := s.get("/" + body[at:at+len("assets/style.css?v=")+12])
	if cache := style.header.Get("Cache-Control"); !strings.Contains(cache, "immutable") {
		t.Errorf("the style is kept with %q", cache)
	}
}

// However large a table is, and whatever is asked of it, a page reads a bounded part of it.
func TestPagesReadABoundedPart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := pgtest.Size(100_000, 1_000_000)
	s.exec("ALTER TABLE {schema}.outbox DISABLE TRIGGER USER")
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, created_at, due_at, completed_at, failed_at,
			last_error)
		SELECT 'noise', '', CASE WHEN i % 2 = 0 THEN 3 ELSE 2 END, 1, at, at, at, CASE WHEN i % 2 = 0 THEN at END,
			CASE WHEN i % 2 = 0 THEN 'no' END
		FROM generate_series(1, $1::int) AS i, LATERAL (SELECT now() - i * interval '1 s' AS at) AS a`, n)
	s.exec("ALTER TABLE {schema}.outbox ENABLE TRIGGER USER")
	s.exec("VACUUM ANALYZE {schema}.outbox")
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	s.read()
	for path, most := range map[string]int{"/t/outbox/done": 300, "/t/outbox/failed": 300, "/t/outbox/ready": 300,
		"/t/outbox/done?topic=none": 5000, "/t/outbox/failed?error=none": 5000, "/t/outbox/done?key=none": 5000,
		"/t/outbox/failed?newer=1m": 300, "/t/outbox/done?newer=3650d&older=1s&error=none": 5000,
		"/find?q=" + id: 200, "/t/outbox/row/" + id: 200, "/dead": 5000, "/": 5000, "/queues": 5000} {
		var pages, status int
		for range 3 { // somebody reads the figures now and then: what a page reads, it reads each time
			pages = pgtest.Pages(t, s.db.Pool, s.db.Schema+".outbox", func() { status = s.get(path).status })
			if pages <= most {
				break
			}
		}
		t.Logf("%s reads %d pages of a table with %d rows", path, pages, n)
		if pages > most || status >= http.StatusBadRequest {
			t.Errorf("%s has status %d and reads %d pages, want at most %d", path, status, pages, most)
		}
	}
}

// However many pages are asked for, four read at a time, and the others have their turn.
func TestPagesTakeTurns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tx, err := s.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+s.db.Schema+".outbox IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	locked := serve(t, s.db, func(c *webui.Config) { c.Pool = pgtest.NewPool(t, s.db) })
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if a := locked.get("/t/outbox/ready"); a.status != http.StatusOK {
				t.Errorf("status %d", a.status)
			}
		})
	}
	waiting := func() (n int) {
		must(t, s.db.Pool.QueryRow(t.Context(), "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted "+
			"AND relation = $1::text::regclass", s.db.Schema+".outbox").Scan(&n))
		return n
	}
	if !pgtest.Await(pgtest.Patience, func() bool { return waiting() == 4 }) {
		t.Errorf("%d pages read", waiting())
	}
	for range 20 {
		if n := waiting(); n != 4 {
			t.Errorf("%d pages read", n)
		}
	}
	must(t, tx.Rollback(t.Context()))
	all.Wait()
}
