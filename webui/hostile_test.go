package webui_test

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/webui"
)

// What a page is asked for stands in its address. A body could be of any size, would be kept in files that nobody
// removes, and could take as long as its sender likes, in the turn of the page.
func TestABodyIsNotRead(t *testing.T) {
	s := newSite(t)
	s.fill()
	t.Setenv("TMPDIR", t.TempDir())
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	must(t, w.WriteField("topic", "none"))
	part, err := w.CreateFormFile("file", "large")
	must(t, err)
	_, err = part.Write(bytes.Repeat([]byte("x"), 40<<20))
	must(t, err)
	must(t, w.Close())
	for _, path := range []string{"/t/outbox/ready", "/find", "/schedules", "/assets/style.css"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+prefix+path,
			bytes.NewReader(body.Bytes()))
		must(t, err)
		r.Header.Set("Content-Type", w.FormDataContentType())
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil { // otherwise the server has closed the connection, because it does not read so much
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if strings.Contains(string(text), "No row in this state matches") {
				t.Errorf("%s: a body has filtered the rows", path)
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	files, err := os.ReadDir(os.Getenv("TMPDIR"))
	must(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "multipart-") {
			t.Errorf("a file is left: %s", f.Name())
		}
	}
}

// A body that is announced and does not come holds up nothing. The connection is closed, since the rest of it could
// still come.
func TestABodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c, err := net.Dial("tcp", s.server.Listener.Addr().String())
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(pgtest.Patience)))
	_, err = io.WriteString(c, "GET "+prefix+"/assets/style.css HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	must(t, err)
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("there is no answer: %v, %q", err, text)
	}
}

// The indentation of deeply nested JSON would be thousands of times as large as the payload.
func TestDeeplyNestedPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const depth = 5000
	nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, headers) VALUES ('t', convert_to($1, 'UTF8'),
		jsonb_build_object('h', $1::jsonb))`, nested)
	body := s.get("/t/outbox/row/" + s.id("SELECT id FROM {schema}.outbox")).body
	if len(body) > 1<<20 || strings.Count(body, "[[[[[[[[") == 0 {
		t.Errorf("the page of a payload of %d bytes has %d", len(nested), len(body))
	}
}

// Who computes the tables of a user, and finds none, has not asked for all.
func TestAUserOfNoTablesSeesNone(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *webui.Config) {
		c.Insecure = false
		c.Authenticate = func(*http.Request) (webui.User, error) {
			return webui.User{Name: "nobody", Tables: []string{}}, nil
		}
	})
	s.fill()
	paths := []string{"/", "/t/jobs/ready", "/dead", "/find?q=x", "/queues", "/schedules", "/history"}
	for _, path := range paths {
		s.shows(path, http.StatusForbidden, "User nobody sees none of the tables")
	}
	for _, table := range []string{"outbox_log", "alarms"} { // which have pages of their own, and no list
		some := serve(t, s.db, func(c *webui.Config) {
			c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
				return webui.User{Name: "somebody", Tables: []string{table}}, nil
			}
		})
		some.shows("/logs", http.StatusOK)
		some.shows("/alarms", http.StatusOK)
		some.shows("/t/jobs/ready", http.StatusNotFound)
		for _, path := range paths {
			some.lacks(path, "postcards", "greet", "It has .")
		}
	}
}

// A viewer that goes away is nothing that an operator has to know.
func TestAViewerThatGoesAwayIsNotLogged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tx, err := s.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+s.db.Schema+".outbox IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	s = serve(t, s.db, func(c *webui.Config) { c.Pool = pgtest.NewPool(t, s.db) })
	waiting := func() (n int) {
		must(t, s.db.Pool.QueryRow(t.Context(), "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted "+
			"AND relation = $1::text::regclass", s.db.Schema+".outbox").Scan(&n))
		return n
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+prefix+"/t/outbox/ready", nil)
	must(t, err)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			response.Body.Close()
			t.Error("there was an answer")
		}
	}()
	if !pgtest.Await(pgtest.Patience, func() bool { return waiting() == 1 }) {
		t.Fatal("the page does not read")
	}
	leave()
	<-left
	if !pgtest.Await(pgtest.Patience, func() bool { return waiting() == 0 }) {
		t.Error("the statement goes on")
	}
	s.server.Close() // waits for the request
	if text := s.log.String(); strings.Contains(text, "reading failed") {
		t.Errorf("it is logged: %s", text)
	}
}

// A turnstile holds up the statement that asks for the role's rights.
type turnstile struct {
	waiting atomic.Int32
	open    chan struct{}
}

func (s *turnstile) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL == postgres.SelectGrantee {
		s.waiting.Add(1)
		<-s.open
	}
	return ctx
}

func (s *turnstile) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What explains a missing right reads, too: it is part of the page's turn.
func TestExplanationsTakeTurns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := strings.ReplaceAll(s.db.Schema, "test", "r")
	s.exec("CREATE ROLE " + name + "_reader LOGIN")
	s.exec("GRANT USAGE ON SCHEMA {schema} TO " + name + "_reader")
	t.Cleanup(func() { dropRoles(s, name) })
	held := &turnstile{open: make(chan struct{})}
	pool := pgtest.NewPool(t, s.db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Tracer, c.MaxConns = name+"_reader", held, 20
	}))
	s = serve(t, s.db, func(c *webui.Config) { c.Pool, c.Timeout = pool, 2*time.Second })
	var all sync.WaitGroup
	for held.waiting.Load() < 4 { // again, if the time of a page was over before it came so far
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			s.get("/t/outbox/ready")
		})
		before := held.waiting.Load()
		pgtest.Await(pgtest.Patience, func() bool {
			select {
			case <-ended:
				return true
			default:
				return held.waiting.Load() > before
			}
		})
	}
	fifth := make(chan struct{})
	go func() {
		defer close(fifth)
		s.shows("/t/outbox/ready", http.StatusServiceUnavailable, "Too many pages at once")
	}()
	pgtest.Await(pgtest.Patience, func() bool {
		select {
		case <-fifth:
			return true
		default:
			return held.waiting.Load() > 4
		}
	})
	if n := held.waiting.Load(); n != 4 {
		t.Errorf("%d pages ask for rights at once", n)
	}
	close(held.open)
	all.Wait()
	<-fifth
}

// The causes of a table may be too many to show, and the page says so.
func TestManyCauses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	write := func(from, to int) {
		s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
			SELECT 't' || i, '', 3, 1, now(), now(), 'no' FROM generate_series($1::int, $2::int) AS i`, from, to)
	}
	write(1, 100)
	s.shows("/dead", http.StatusOK, ">t100<")
	s.lacks("/dead", "more causes", "A sample")
	write(101, 101)
	s.shows("/dead", http.StatusOK, "There are more causes: these are the 100 most frequent.")
	s.lacks("/dead", "A sample")
}

// Of many dead letters the latest are read, which is said, and of many rows that were cancelled few.
func TestDeadLettersAreASample(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	write := func(n int, cancelled string) {
		s.exec(`INSERT INTO {schema}.outbox (topic, payload, status, attempts, completed_at, failed_at, cancelled_at,
			last_error) SELECT 'mail', '', 3, 1, now(), now(), `+cancelled+`, 'no' FROM generate_series(1, $1::int)`, n)
	}
	write(1, "NULL")
	write(2*714, "now()")
	s.shows("/dead", http.StatusOK, "The latest rows that ended without success were cancelled.",
		`<a href="./t/outbox/failed">search on</a>`)
	s.lacks("/dead", "There are no dead letters")
	const sample = "A sample of the latest dead letters, at most 714. There may be more."
	write(713, "NULL")
	s.shows("/dead", http.StatusOK, sample, `<td class="n">≥ 713</td>`)
	write(10, "NULL")
	s.shows("/dead", http.StatusOK, sample, `<td class="n">≥ 714</td>`)
	s.exec("DELETE FROM {schema}.outbox WHERE cancelled_at IS NOT NULL")
	s.exec("DELETE FROM {schema}.outbox WHERE id IN (SELECT id FROM {schema}.outbox LIMIT 11)")
	s.shows("/dead", http.StatusOK, `<td class="n">713</td>`)
	s.lacks("/dead", "A sample")
}

// A request in the form that proxies are sent has no path either, if it is about the root.
func TestTheRootInAWholeAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := webui.New(webui.Config{Pool: s.db.Pool, Schema: s.db.Schema, Insecure: true})
	must(t, err)
	for asked, want := range map[string]string{"http://txwork.example": "././", "http://txwork.example?q=1": "././",
		"http://txwork.example/queues": "./queues/", "/queues": "./queues/", "/a/queues?x=/y": "./queues/",
		"": "././", "a:443": "././"} {
		r := newRequest("/")
		r.RequestURI, r.URL.Path = asked, ""
		w := newRecorder()
		page.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s leads to %q, want %q", asked, got, want)
		}
	}
}

// The hash of nothing is what a command prints when its variable is not set: whoever sends no token would have it.
func TestTheHashOfNothingIsNoToken(t *testing.T) {
	t.Parallel()
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if _, err := webui.NewAccounts(webui.Account{User: webui.User{Name: "bot"}, TokenHash: hash}); err == nil {
		t.Error("it is accepted")
	}
}
