package inboxhttp_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const patience = pgtest.Patience

// fixture is an inbox in a schema of its own, with a table of effects, and the handler's log.
type fixture struct {
	*testing.T
	*pgtest.DB
	box  *inbox.Inbox
	logs *logs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t, pgtest.Reused)
	box, err := inbox.Open(inbox.Options{
		Schema: db.Schema, DedupWindow: 7 * 24 * time.Hour,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	})
	must(t, err)
	up, _, err := box.DDL()
	must(t, err)
	f := &fixture{T: t, DB: db, box: box, logs: new(logs)}
	db.Define(t, up+"; CREATE TABLE effects (id text, body text)")
	return f
}

// options returns the options of the tests, with changes.
func (f *fixture) options(changes ...func(*inboxhttp.Options)) inboxhttp.Options {
	o := inboxhttp.Options{Consumer: "billing", Source: "shop", Logger: slog.New(slog.NewTextHandler(f.logs, nil))}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// process serves a handler that writes each message's effect and then calls the function of the test.
func (f *fixture) process(then func(ctx context.Context, m *inboxhttp.Message) error,
	changes ...func(*inboxhttp.Options)) string {
	f.Helper()
	h, err := inboxhttp.Process(f.Pool, f.box, f.options(changes...), func(ctx context.Context, tx pgx.Tx,
		m *inboxhttp.Message) error {
		if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", m.ID, string(m.Body)); err != nil {
			return err
		}
		return then(ctx, m)
	})
	must(f.T, err)
	return f.serve(h)
}

func (f *fixture) serve(h http.Handler) string {
	f.Helper()
	s := httptest.NewServer(h)
	f.Cleanup(s.Close)
	return s.URL
}

func (f *fixture) effects() (n int) {
	f.Helper()
	must(f.T, f.Pool.QueryRow(f.Context(), "SELECT count(*) FROM effects").Scan(&n))
	return n
}

// A reply is what a sender gets.
type reply struct {
	status     int
	text       string
	retryAfter string
}

func (f *fixture) post(url, id, body string, headers ...string) reply {
	f.Helper()
	return f.send(http.MethodPost, url, id, strings.NewReader(body), headers...)
}

func (f *fixture) send(method, url, id string, body io.Reader, headers ...string) reply {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, url, body)
	must(f.T, err)
	if id != "" {
		r.Header.Set(inboxhttp.DefaultKeyHeader, id)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	must(f.T, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(f.T, err)
	return reply{response.StatusCode, strings.TrimSpace(string(text)), response.Header.Get("Retry-After")}
}

// logs collects what a handler has logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
