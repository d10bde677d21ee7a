package webui_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processURLEnv); url != "" {
		dashboardProcess(url)
	}
	goleak.VerifyTestMain(sdktest.Under(m))
}

// prefix is where the dashboard of a site is mounted.
const prefix = "/admin/queues"

// A site is a server with a dashboard for a schema of its own.
type site struct {
	*testing.T
	db     *pgtest.DB
	server *httptest.Server
	header http.Header // of each request
	log    *safeBuffer
	page   http.Handler
}

// newSite serves the tables of the migrations, and one of the application's own.
func newSite(t *testing.T, configure ...func(*webui.Config)) *site {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema})
	must(t, err)
	own, err := migrations.DDL(workqueue.Spec{Schema: db.Schema, Table: "postcards", Columns: []workqueue.Column{
		{Name: "address", Type: "text", NotNull: true}, {Name: "page", Type: "jsonb"}}})
	must(t, err)
	db.Define(t, text+strings.Split(strings.Split(own, "-- +goose Down")[0], "-- +goose Up")[1])
	return serve(t, db, configure...)
}

// serve serves a dashboard for a schema.
func serve(t *testing.T, db *pgtest.DB, configure ...func(*webui.Config)) *site {
	t.Helper()
	log := &safeBuffer{}
	c := webui.Config{Pool: db.Pool, Schema: db.Schema, Insecure: true,
		Timeout: pgtest.Patience, StatementTimeout: pgtest.Patience,
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	for _, f := range configure {
		f(&c)
	}
	page, err := webui.New(c)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &site{t, db, server, http.Header{}, log, page}
}

// An answer is that of the dashboard.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks for a page below the prefix, and does not follow redirects.
func (s *site) get(path string) answer {
	s.Helper()
	return s.send(http.MethodGet, path, nil)
}

func (s *site) send(method, path string, header http.Header) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.server.URL+prefix+path, nil)
	must(s, err)
	for _, all := range []http.Header{s.header, header} {
		for name, values := range all {
			r.Header[name] = values
		}
	}
	return s.do(r)
}

func (s *site) do(r *http.Request) answer {
	s.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	must(s, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(s, err)
	return answer{response.StatusCode, response.Header, string(body)}
}

// shows fails the test unless the page has the status and all texts.
func (s *site) shows(path string, status int, texts ...string) string {
	s.Helper()
	a := s.get(path)
	if a.status != status {
		s.Errorf("%s has status %d, want %d:\n%s", path, a.status, status, content(a.body))
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			s.Errorf("%s does not show %q:\n%s", path, text, content(a.body))
		}
	}
	return a.body
}

// lacks fails the test if a page has one of the texts.
func (s *site) lacks(path string, texts ...string) {
	s.Helper()
	body := s.get(path).body
	for _, text := range texts {
		if strings.Contains(body, text) {
			s.Errorf("%s shows %q:\n%s", path, text, content(body))
		}
	}
}

// content is the part of a page that is its own.
func content(body string) string {
	_, after, _ := strings.Cut(body, "<main")
	return after
}

// read waits until the figures were read and the doctor has looked.
func (s *site) read() *site {
	s.Helper()
	done := pgtest.Await(pgtest.Patience, func() bool {
		a := s.get("/")
		return a.status == http.StatusOK && !strings.Contains(a.body, "being read for") &&
			!strings.Contains(a.body, "The doctor is looking")
	})
	if !done {
		s.Fatalf("the figures are not read:\n%s", s.get("/").body)
	}
	return s
}

// exec runs a statement in which {schema} is the schema.
func (s *site) exec(statement string, args ...any) {
	s.Helper()
	_, err := s.db.Pool.Exec(s.Context(), strings.ReplaceAll(statement, "{schema}", s.db.Schema), args...)
	must(s, err)
}

// id runs a statement that returns an id.
func (s *site) id(statement string, args ...any) (id string) {
	s.Helper()
	query := strings.ReplaceAll(statement, "{schema}", s.db.Schema)
	must(s, s.db.Pool.QueryRow(s.Context(), query, args...).Scan(&id))
	return id
}

// fill writes rows in every state.
func (s *site) fill() {
	s.Helper()
	s.exec(`INSERT INTO {schema}.jobs (kind, queue, priority, args, due_at, status, attempts, locked_until, owner_token,
			completed_at, failed_at, cancelled_at, last_error)
		SELECT 'greet', 'mail', 2, convert_to('{"to": "' || n || '"}', 'UTF8'), now() + due, status,
			CASE WHEN status > 0 THEN 1 ELSE 0 END,
			CASE WHEN status = 1 THEN now() + lease END, CASE WHEN status = 1 THEN gen_random_uuid() END,
			CASE WHEN status > 1 THEN now() END, CASE WHEN status = 3 THEN now() END, CASE WHEN cancelled THEN now() END,
			CASE WHEN status = 3 THEN 'smtp 5' || n || ': no such mailbox' END
		FROM generate_series(1, 3) AS n, (VALUES (interval '-1 min', 0, interval '0', false),
			(interval '1 h', 0, interval '0', false), (interval '-1 min', 1, interval '1 min', false),
			(interval '-2 min', 1, interval '-1 min', false), (interval '-1 min', 2, interval '0', false),
			(interval '-1 min', 3, interval '0', false), (interval '-1 min', 3, interval '0', true)) AS v (due, status, lease, cancelled)`)
	s.exec(`INSERT INTO {schema}.jobs_queue (name, paused) VALUES ('mail', true)`)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, headers) VALUES ('orders', 'hello', '{"traceparent": "00-1"}')`)
	s.exec(`INSERT INTO {schema}.postcards (address, page) VALUES ('Main Street 1', '{"lines": [1, 2]}')`)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A recorder notes the statements of a pool.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d.SQL)
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns the statements since it was called last.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// recording is a pool whose statements are noted.
func recording(t testing.TB, db *pgtest.DB) (*pgxpool.Pool, *recorder) {
	t.Helper()
	r := &recorder{}
	return pgtest.NewPool(t, db, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = r })), r
}
