package httppost

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// If the delivery has no trace, the receiver continues that of the message.
func TestTheMessagesTraceGoesOnWithoutOneOfTheDelivery(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		seen <- r.Header.Get("Traceparent")
	}))
	t.Cleanup(s.Close)
	p, err := NewPoster(PosterOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)

	const producer = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled})
	traced := trace.ContextWithSpanContext(t.Context(), span)
	const delivery = "00-01000000000000000000000000000000-0200000000000000-01"
	var m Message
	// Programs in other languages write names as HTTP does.
	for _, name := range []string{"Traceparent", "traceparent"} {
		m = Message{ID: "1", Headers: map[string]string{name: producer}}
		if err := p.Post(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != producer {
			t.Errorf("%s: got %q, want the message's", name, got)
		}
	}
	if err := p.Post(traced, m, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != delivery {
		t.Errorf("got %q, want the delivery's", got)
	}
	if err := p.Post(t.Context(), Message{ID: "1"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "" {
		t.Errorf("got %q, want none", got)
	}
}
