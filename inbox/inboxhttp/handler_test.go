package inboxhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

func nothing(context.Context, *inboxhttp.Message) error { return nil }

// A message is processed once and is a duplicate from then on. The same id with another body is refused.
func TestAMessageIsProcessedOnce(t *testing.T) {
	f := newFixture(t)
	url := f.process(nothing)
	for i, want := range []reply{
		{200, "processed", ""},
		{200, "duplicate", ""},
	} {
		if got := f.post(url, "a", "body"); got != want {
			t.Errorf("delivery %d: got %+v, want %+v", i+1, got, want)
		}
	}
	if got, want := f.post(url, "a", "other"), (reply{422, "hash_mismatch", ""}); got != want {
		t.Errorf("another body: got %+v, want %+v", got, want)
	}
	if n := f.effects(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestAnyBodyIsADuplicateWhereTheOptionsSaySo(t *testing.T) {
	f := newFixture(t)
	anyBody := func(o *inboxhttp.Options) { o.AnyBody = true }
	process := f.process(nothing, anyBody)
	h, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{Options: f.options(anyBody)})
	must(t, err)
	for id, url := range map[string]string{"processed": process, "stored": f.serve(h)} {
		first, second := f.post(url, id, "one"), f.post(url, id, "two")
		if want := (reply{200, id, ""}); first != want {
			t.Errorf("got %+v, want %+v", first, want)
		}
		if want := (reply{200, "duplicate", ""}); second != want {
			t.Errorf("%s: got %+v, want %+v", id, second, want)
		}
	}
}

// While one request processes a message, another request with the same message does not wait: it is asked to come back.
func TestAMessageThatIsBeingProcessed(t *testing.T) {
	f := newFixture(t)
	begun, end := make(chan bool), make(chan bool)
	url := f.process(func(context.Context, *inboxhttp.Message) error { begun <- true; <-end; return nil },
		func(o *inboxhttp.Options) {
			o.RetryAfter = 1500 * time.Millisecond // rounded up, because the header has whole seconds
		})
	first := make(chan reply, 1)
	go func() { first <- f.post(url, "a", "body") }()
	receive(t, begun)
	if got, want := f.post(url, "a", "body"), (reply{503, "in_progress", "2"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	close(end)
	if got, want := receive(t, first), (reply{200, "processed", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRequestsThatAreNoMessages(t *testing.T) {
	f := newFixture(t)
	url := f.process(nothing, func(o *inboxhttp.Options) {
		o.MaxBody = 10
		o.Verify = func(r *http.Request, body []byte) (inboxhttp.Verified, error) {
			if r.Header.Get("Signature") == "of "+string(body) {
				return inboxhttp.Unsigned(r, "")
			}
			return inboxhttp.Verified{}, errors.New("forged")
		}
	})
	for name, c := range map[string]struct {
		got  reply
		want reply
	}{
		"no id": {f.post(url, "", "x", "Signature", "of x"),
			reply{400, "the header Idempotency-Key has to be there once, with the message's id", ""}},
		"two ids": {f.post(url, "a", "x", "Signature", "of x", "Idempotency-Key", "b"),
			reply{400, "the header Idempotency-Key has to be there once, with the message's id", ""}},
		"a long id": {f.post(url, strings.Repeat("i", 256), "x", "Signature", "of x"),
			reply{400, "txwork: message_id has 256 bytes, it must have 1 to 255 bytes", ""}},
		"a large body": {f.post(url, "a", strings.Repeat("x", 11), "Signature", "x"),
			reply{413, "the body has more than 10 bytes", ""}},
		"a forged one": {f.post(url, "a", "x", "Signature", "of y"), reply{401, "the request is not the source's",
			""}},
		"another verb":  {f.send(http.MethodPut, url, "a", strings.NewReader("x")), reply{405, "use POST", ""}},
		"the right one": {f.post(url, "a", "0123456789", "Signature", "of 0123456789"), reply{200, "processed", ""}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, c.got, c.want)
		}
	}
	if n := f.effects(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if logged := f.logs.String(); !strings.Contains(logged, "forged") {
		t.Errorf("the log does not say why a request was refused: %s", logged)
	}
}

// Any error of the function rolls back, and the answer tells the sender whether to repeat the message. It does not
// reveal the error.
func TestWhatAFunctionsErrorIsAnsweredBy(t *testing.T) {
	f := newFixture(t)
	secret := errors.New("the secret reason")
	var fails error
	url := f.process(func(context.Context, *inboxhttp.Message) error { return fails })
	for name, c := range map[string]struct {
		fails error
		want  reply
	}{
		"an error": {secret, reply{500, "the message could not be processed; send it again", ""}},
		"permanent": {workqueue.Permanent(errors.New("no such order")),
			reply{422, "permanent: no such order", ""}},
		"refused":     {&inbox.RefusedError{Err: errors.New("no JSON")}, reply{400, "no JSON", ""}},
		"retry after": {workqueue.RetryAfter(time.Minute, secret), reply{503, "try again later", "60"}},
		"its database": {&pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "secret"},
			reply{503, "try again later", "1"}},
		"a serialization": {&pgconn.PgError{Severity: "ERROR", Code: "40001"}, reply{503, "try again later", "1"}},
		"its statement": {&pgconn.PgError{Severity: "ERROR", Code: "23505"},
			reply{500, "the message could not be processed; send it again", ""}},
		"invalid, not refused": {validate.Errorf("x", "is secret"),
			reply{500, "the message could not be processed; send it again", ""}},
	} {
		fails = c.fails
		if got := f.post(url, name, "body"); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if n := f.effects(); n != 0 {
		t.Errorf("%d effects, want none", n)
	}
	if logged := f.logs.String(); !strings.Contains(logged, "the secret reason") ||
		!strings.Contains(logged, "message_id=\"an error\"") {
		t.Errorf("the log does not tell of the failure: %s", logged)
	}
}

func TestADatabaseThatIsAway(t *testing.T) {
	f := newFixture(t)
	pool, err := pgxpool.New(t.Context(), "postgres://u:secret@127.0.0.1:1/none?connect_timeout=5")
	must(t, err)
	t.Cleanup(pool.Close)
	process, err := inboxhttp.Process(pool, f.box, f.options(), func(context.Context, pgx.Tx,
		*inboxhttp.Message) error {
		return nil
	})
	must(t, err)
	store, err := inboxhttp.Receive(pool, f.box, inboxhttp.ReceiveOptions{Options: f.options()})
	must(t, err)
	for name, h := range map[string]http.Handler{"process": process, "receive": store} {
		if got, want := f.post(f.serve(h), "a", "body"), (reply{503, "try again later", "1"}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if logged := f.logs.String(); !strings.Contains(logged, "status=503") {
		t.Errorf("the log does not tell of the outage: %s", logged)
	}
}

const sendersTrace = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

func TestTheSendersTraceGoesOn(t *testing.T) {
	f := newFixture(t)
	seen := make(chan trace.SpanContext, 1)
	url := f.process(func(ctx context.Context, _ *inboxhttp.Message) error {
		seen <- trace.SpanContextFromContext(ctx)
		return nil
	})
	f.post(url, "a", "", "Traceparent", sendersTrace)
	if got := receive(t, seen); got.TraceID().String() != "0102030405060708090a0b0c0d0e0f10" || got.IsRemote() {
		t.Errorf("the function's span is %v, want one of its own in the sender's trace", got)
	}

	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	h, err := inboxhttp.Process(f.Pool, f.box, f.options(), func(ctx context.Context, _ pgx.Tx,
		_ *inboxhttp.Message) error {
		seen <- trace.SpanContextFromContext(ctx)
		return nil
	})
	must(t, err)
	url = f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(trace.ContextWithSpanContext(r.Context(), own)))
	}))
	f.post(url, "b", "", "Traceparent", sendersTrace)
	if got := receive(t, seen); got.TraceID() != own.TraceID() {
		t.Errorf("the trace of the middleware's span is lost: %v", got)
	}
}

func TestAMessageIsStoredForAWorker(t *testing.T) {
	f := newFixture(t)
	h, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{
		Options:     f.options(),
		KeepHeaders: []string{"x-tenant", "Accept"},
	})
	must(t, err)
	url := f.serve(h)
	headers := []string{inboxhttp.TopicHeader, "order%2Eplaced", "X-Tenant", "7", "Accept", "a", "Accept", "b",
		"Authorization", "secret", "Traceparent", sendersTrace}
	if got, want := f.post(url, "a", "body", headers...), (reply{200, "stored", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := f.post(url, "a", "body", headers...), (reply{200, "duplicate", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	worker, err := inbox.NewWorker(f.Pool, f.box, inbox.WorkerOptions{Consumer: "billing"})
	must(t, err)
	delivered := make(chan *inbox.Delivery, 1)
	worker.Handle("order.placed", func(_ context.Context, _ pgx.Tx,
		m *inbox.Delivery) error {
		delivered <- m
		return nil
	})
	drain, err := worker.Drain()
	must(t, err)
	_, err = drain.Process(t.Context())
	must(t, err)
	m := receive(t, delivered)
	if m.MessageID != "a" || m.Source != "shop" || string(m.Payload) != "body" {
		t.Errorf("the worker got %+v", m)
	}
	if h := m.Headers; h["x-tenant"] != "7" || h["accept"] != "a, b" || h["authorization"] != "" ||
		!strings.HasPrefix(h["traceparent"], sendersTrace[:36]) {
		t.Errorf("the message's headers are %v", h)
	}
}

// An invalid topic, payload or header is the sender's mistake, so it is answered with 400.
func TestMessagesThatCannotBeStored(t *testing.T) {
	f := newFixture(t)
	h, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{
		Options: f.options(func(o *inboxhttp.Options) {
			o.Topic = func(r *http.Request) string { return r.Header.Get("Topic") }
		}),
	})
	must(t, err)
	if got := f.post(f.serve(h), "a", "body", "Topic", strings.Repeat("t", 256)); got.status != 400 ||
		!strings.Contains(got.text, "topic has 256 bytes") {
		t.Errorf("got %+v", got)
	}
}

func TestHandlersThatCannotWork(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(*inboxhttp.Options){
		"consumer":    func(o *inboxhttp.Options) { o.Consumer = "" },
		"source":      func(o *inboxhttp.Options) { o.Source = "" },
		"max body":    func(o *inboxhttp.Options) { o.MaxBody = -1 },
		"retry after": func(o *inboxhttp.Options) { o.RetryAfter = -1 },
		"key header":  func(o *inboxhttp.Options) { o.Verify, o.KeyHeader = unverified, "webhook-id" },
		"topic have": func(o *inboxhttp.Options) {
			o.Verify, o.Topic = unverified, func(*http.Request) string { return "t" }
		},
	} {
		_, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{Options: f.options(change)})
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, noPool := inboxhttp.Receive(nil, f.box, inboxhttp.ReceiveOptions{Options: f.options()})
	_, noBox := inboxhttp.Receive(f.Pool, nil, inboxhttp.ReceiveOptions{Options: f.options()})
	_, noFunction := inboxhttp.Process(f.Pool, f.box, f.options(), nil)
	for _, err := range []error{noPool, noBox, noFunction} {
		if !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}
