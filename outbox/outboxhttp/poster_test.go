package outboxhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
	"github.com/txwork/txwork/workqueue"
)

func accept(http.ResponseWriter, *http.Request) {}

func answering(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		if status >= 300 && status != http.StatusNotModified {
			io.WriteString(w, "because\x00\xff"+strings.Repeat(".", 10_000))
		}
	}
}

const producersTrace = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

func TestADeliveryIsAPost(t *testing.T) {
	f := newFixture(t)
	url, posts := receiver(t, accept)
	message := outbox.Message{
		Topic: "order.placed", Key: "Grüße", Payload: []byte(`{"id":7}`),
		Headers: map[string]string{"x-tenant": "7", "internal": "secret", "traceparent": producersTrace},
	}
	r := f.deliver(message, outboxhttp.Options{
		URL:            url,
		Header:         http.Header{"Authorization": {"Bearer token"}},
		ForwardHeaders: []string{"X-Tenant"},
	})
	p := receive(t, posts)
	if r.status != workqueue.Done || p.method != "POST" || p.body != `{"id":7}` {
		t.Errorf("got %+v, the message is %+v", p, r)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": r.id.String(), "Content-Type": "application/json", "Authorization": "Bearer token",
		"X-Tenant":     "7",
		"Txwork-Topic": "order.placed", "Txwork-Key": "Gr%C3%BC%C3%9Fe", "Txwork-Attempt": "1", "Internal": "",
		"User-Agent": "txwork",
	} {
		if got := p.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// The tests run under an SDK, so the delivery has a span of its own, which is linked to the producer's.
	if got := p.header.Get("Traceparent"); len(got) != len(producersTrace) || got == producersTrace {
		t.Errorf("the trace of the delivery is %q", got)
	}
}

func TestOptionsOfARequest(t *testing.T) {
	f := newFixture(t)
	url, posts := receiver(t, accept)
	sign := func(r *http.Request, m *outbox.Delivery) error {
		r.Header.Set("Signature", "of "+string(m.Payload))
		r.URL.Path = "/" + m.Topic
		return nil
	}
	o := outboxhttp.Options{URL: url, KeyHeader: "webhook-id", ContentType: "text/plain", Prepare: sign}
	r := f.deliver(outbox.Message{Topic: "t", Payload: []byte("x")}, o)
	p := receive(t, posts)
	if p.header.Get("Webhook-Id") != r.id.String() || p.header.Get("Content-Type") != "text/plain" ||
		p.header.Get("Signature") != "of x" {
		t.Errorf("got %+v", p)
	}
	f.deliver(outbox.Message{Topic: "t", Headers: map[string]string{"content-type": "text/csv"}}, o)
	if p := receive(t, posts); p.header.Get("Content-Type") != "text/csv" || p.body != "" {
		t.Errorf("got %+v", p)
	}
	o.Prepare = func(*http.Request, *outbox.Delivery) error { return workqueue.Permanent(errors.New("no address")) }
	if r := f.deliver(outbox.Message{Topic: "t"}, o); r.status != workqueue.Failed ||
		!strings.Contains(r.lastError, "no address") || len(posts) > 0 {
		t.Errorf("a request that could not be prepared: %+v", r)
	}
}

// Every status has its outcome, and only the options change it.
func TestStatusesAreOutcomes(t *testing.T) {
	f := newFixture(t)
	elsewhere, followed := receiver(t, accept)
	for status, want := range map[int]workqueue.Status{
		200: workqueue.Done, 202: workqueue.Done, 204: workqueue.Done,
		302: workqueue.Ready, 307: workqueue.Ready, 308: workqueue.Ready,
		408: workqueue.Ready, 409: workqueue.Ready, 425: workqueue.Ready, 429: workqueue.Ready, 500: workqueue.Ready,
		503: workqueue.Ready,
		400: workqueue.Failed, 403: workqueue.Failed, 404: workqueue.Ready, 410: workqueue.Failed, 422: workqueue.Done,
	} {
		url, _ := receiver(t, answering(status, "Location", elsewhere))
		r := f.deliver(outbox.Message{Topic: "t"}, outboxhttp.Options{URL: url + "/secret",
			Statuses: map[int]outboxhttp.Verdict{
				404: outboxhttp.Retry, 422: outboxhttp.Done,
			}})
		if r.status != want || r.attempts != 1 {
			t.Errorf("%d: %+v", status, r)
		}
		switch {
		case want == workqueue.Done && r.lastError != "":
			t.Errorf("%d: %+v", status, r)
		case status/100 == 3 && !strings.Contains(r.lastError, "not followed, this one leads to "+elsewhere):
			t.Errorf("%d: the error is %q", status, r.lastError)
		case status/100 != 3 && want != workqueue.Done &&
			(!strings.Contains(r.lastError, http.StatusText(status)+": because") ||
				len(r.lastError) > 400 || strings.Contains(r.lastError, "secret")):
			t.Errorf("%d: the error is %q", status, r.lastError)
		case want == workqueue.Ready && r.pause != time.Hour:
			t.Errorf("%d: the next attempt is after %v, want the outbox's backoff", status, r.pause)
		}
	}
	if len(followed) > 0 {
		t.Error("a redirect was followed")
	}
}

// A status that says that the receiver is away costs no attempt.
func TestAStatusThatMeansUnavailable(t *testing.T) {
	f := newFixture(t)
	url, _ := receiver(t, answering(http.StatusServiceUnavailable))
	r := f.deliver(outbox.Message{Topic: "t"}, outboxhttp.Options{URL: url,
		Statuses: map[int]outboxhttp.Verdict{503: outboxhttp.Unavailable}})
	if r.status != workqueue.Ready || r.attempts != 0 || !strings.Contains(r.lastError, "503 Service Unavailable") {
		t.Errorf("got %+v", r)
	}
}

func TestRetryAfterPutsTheNextAttemptOff(t *testing.T) {
	f := newFixture(t)
	for text, want := range map[string]time.Duration{
		"600": 10 * time.Minute,
		"1":   0, // not shorter than the default backoff, about a second
		time.Now().Add(30*time.Minute + 10*time.Second).UTC().Format(http.TimeFormat): 30 * time.Minute,
		"9999999": outboxhttp.MaxRetryAfter,
		"soon":    time.Hour, // cannot be parsed, so it is the outbox's own backoff
	} {
		url, _ := receiver(t, answering(429, "Retry-After", text))
		if r := f.deliver(outbox.Message{Topic: "t"}, outboxhttp.Options{URL: url}); r.status != workqueue.Ready ||
			r.pause != want {
			t.Errorf("%s: %+v, want a pause of %v", text, r, want)
		}
	}
}

func TestReceiversThatDoNotAnswer(t *testing.T) {
	f := newFixture(t)
	gone := make(chan bool)
	slow, _ := receiver(t, func(http.ResponseWriter, *http.Request) { <-gone })
	defer close(gone)
	broken, _ := receiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, c := range map[string]struct {
		o    outboxhttp.Options
		want string
	}{
		"slow":         {outboxhttp.Options{URL: slow, Timeout: 50 * time.Millisecond}, "no answer within 50ms"},
		"broken":       {outboxhttp.Options{URL: broken + "/secret"}, "the request failed: EOF"},
		"unreachable":  {outboxhttp.Options{URL: "http://127.0.0.1:1/secret"}, "connection refused"},
		"not a public": {outboxhttp.Options{URL: slow + "/secret", PublicOnly: true}, "is not public"},
	} {
		r := f.deliver(outbox.Message{Topic: name}, c.o)
		pause, attempts := time.Hour, 1
		if name == "unreachable" { // which is not the message's fault
			pause, attempts = 0, 0
		}
		if r.status != workqueue.Ready || r.pause != pause || r.attempts != attempts ||
			!strings.Contains(r.lastError, c.want) || strings.Contains(r.lastError, "secret") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Where no answer means that the receiver is away, it costs no attempt, unless the request never went to it.
func TestNoAnswerThatMeansUnavailable(t *testing.T) {
	f := newFixture(t)
	gone := make(chan bool)
	slow, _ := receiver(t, func(http.ResponseWriter, *http.Request) { <-gone })
	defer close(gone)
	broken, _ := receiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	refusing, _ := receiver(t, answering(http.StatusServiceUnavailable))
	chosen := func(r *http.Request, _ *outbox.Delivery) error {
		r.URL.Host = strings.TrimPrefix(broken, "http://")
		return nil
	}
	for name, c := range map[string]struct {
		o        outboxhttp.Options
		attempts int
	}{
		"slow":                   {outboxhttp.Options{URL: slow, Timeout: 50 * time.Millisecond}, 0},
		"broken":                 {outboxhttp.Options{URL: broken}, 0},
		"not a public":           {outboxhttp.Options{URL: slow, PublicOnly: true}, 1},
		"chosen for the message": {outboxhttp.Options{URL: slow, Prepare: chosen}, 1},
		"answers":                {outboxhttp.Options{URL: refusing}, 1},
	} {
		c.o.NoAnswer = outboxhttp.Unavailable
		if r := f.deliver(outbox.Message{Topic: name}, c.o); r.status != workqueue.Ready || r.attempts != c.attempts ||
			c.attempts == 0 && !strings.Contains(r.lastError, "the receiver does not answer") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A receiver that Prepare has chosen is the message's own: if nothing listens there, its topic does not rest.
func TestAReceiverOfAMessageThatCannotBeReached(t *testing.T) {
	f := newFixture(t)
	url, _ := receiver(t, accept)
	o := outboxhttp.Options{URL: url, Prepare: func(r *http.Request, _ *outbox.Delivery) error {
		r.URL.Host = "127.0.0.1:1"
		return nil
	}}
	if r := f.deliver(outbox.Message{Topic: "t"}, o); r.attempts != 1 || r.pause != time.Hour {
		t.Errorf("%+v", r)
	}
}

func TestPostersThatCannotWork(t *testing.T) {
	t.Parallel()
	const url = "http://example.org"
	for want, o := range map[string]outboxhttp.Options{
		"url is missing: set outboxhttp.Options.URL": {},
		"url has scheme":                     {URL: "ftp://example.org"},
		"url has a user":                     {URL: "http://u:hunter2@example.org"},
		"timeout is -1ns":                    {URL: url, Timeout: -1},
		"header \"a b\" is no name":          {URL: url, KeyHeader: "a b"},
		"header Host is":                     {URL: url, ForwardHeaders: []string{"Host"}},
		"header Authorization has a line":    {URL: url, Header: http.Header{"Authorization": {"hunter2\r\nX: y"}}},
		"header Content-Type has a line":     {URL: url, ContentType: "a\n"},
		"statuses map 100":                   {URL: url, Statuses: map[int]outboxhttp.Verdict{100: outboxhttp.Done}},
		"no answer is 1":                     {URL: url, NoAnswer: outboxhttp.Done},
		"statuses map 200 to 9":              {URL: url, Statuses: map[int]outboxhttp.Verdict{200: 9}},
		"public only cannot be kept to with": {URL: url, PublicOnly: true, Transport: http.DefaultTransport},
	} {
		p, err := outboxhttp.NewPoster(o)
		if p != nil || !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The comments of the constants state their values, because their definitions are in an internal package.
func TestTheDocumentedValues(t *testing.T) {
	t.Parallel()
	if outboxhttp.DefaultTimeout != 10*time.Second || outboxhttp.MaxRetryAfter != 24*time.Hour ||
		outboxhttp.DefaultKeyHeader != "Idempotency-Key" || outboxhttp.DefaultContentType != "application/json" {
		t.Error("a comment of a default states another value")
	}
	if outboxhttp.Done != 1 || outboxhttp.Retry != 2 || outboxhttp.Permanent != 3 ||
		outboxhttp.Unavailable != 4 {
		t.Error("a comment of a verdict states another value")
	}
}
