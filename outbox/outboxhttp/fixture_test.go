package outboxhttp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const patience = pgtest.Patience

// fixture is an outbox in a schema of its own. Failed attempts are retried after an hour.
type fixture struct {
	*testing.T
	*pgtest.DB
	box *outbox.Outbox
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t, pgtest.Reused)
	box, err := outbox.Open(outbox.Options{
		Schema:    db.Schema,
		Retry:     workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour},
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	})
	must(t, err)
	up, _, err := box.DDL()
	must(t, err)
	db.Define(t, up)
	return &fixture{t, db, box}
}

// deliver has a relay post a message once, and returns the resulting row.
func (f *fixture) deliver(m outbox.Message, o outboxhttp.Options) row {
	f.Helper()
	poster, err := outboxhttp.NewPoster(o)
	must(f.T, err)
	defer poster.Close()
	ctx := f.Context()
	var enqueued workqueue.Enqueued
	must(f.T, pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) (err error) {
		enqueued, err = f.box.Enqueue(ctx, workqueue.Pgx(tx), m)
		return err
	}))
	relay, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	must(f.T, err)
	relay.HandleAll(poster.Deliver)
	drain, err := relay.Drain()
	must(f.T, err)
	_, err = drain.Process(ctx)
	must(f.T, err)
	return f.row(enqueued.ID)
}

// A row is the state of a message after its delivery.
type row struct {
	id        uuid.UUID
	status    workqueue.Status
	attempts  int
	pause     time.Duration // until the next attempt, rounded to minutes
	lastError string
}

func (f *fixture) row(id uuid.UUID) row {
	f.Helper()
	r := row{id: id}
	var seconds float64
	must(f.T, f.Pool.QueryRow(f.Context(),
		`SELECT status, attempts, extract(epoch FROM due_at - now())::float8, coalesce(last_error, '')
		FROM outbox WHERE id = $1`, id).Scan(&r.status, &r.attempts, &seconds, &r.lastError))
	r.pause = time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	return r
}

// A post is a request that a receiver got.
type post struct {
	method string
	header http.Header
	body   string
}

// receiver serves a handler and sends the requests that it got to posts.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, posts chan post) {
	t.Helper()
	posts = make(chan post, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- post{r.Method, r.Header, string(body)}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, posts
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case v := <-c:
		return v
	case <-ctx.Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
