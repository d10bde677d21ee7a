package httppost

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Verdict{
		200: Done, 202: Done, 204: Done, 299: Done,
		408: Retry, 409: Retry, 425: Retry, 429: Retry, 500: Retry, 502: Retry, 503: Retry, 599: Retry,
		400: Permanent, 401: Permanent, 404: Permanent, 410: Permanent, 422: Permanent,
		101: Retry, 301: Retry, 303: Retry, 304: Retry, 307: Retry, 700: Retry,
	} {
		if got := Judge(status); got != want {
			t.Errorf("%d: verdict %d, want %d", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "120": 2 * time.Minute, "86400": 24 * time.Hour, "86401": MaxRetryAfter,
		"99999999999999999999": MaxRetryAfter, "-1": 0, "1.5": 0, "soon": 0, " 5": 0,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):   0,
		now.Add(48 * time.Hour).Format(http.TimeFormat): MaxRetryAfter,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	later := Answer{Status: 503, RetryAfter: time.Minute, Excerpt: "busy"}
	if err := later.Outcome(Done, 0); err != nil {
		t.Errorf("done: %v", err)
	}
	for least, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Hour} {
		var o *workqueue.Outcome
		if err := later.Outcome(Retry, least); !errors.As(err, &o) ||
			err.Error() != "the receiver answered 503 Service Unavailable: busy" {
			t.Errorf("got %v", err)
		} else if d, ok := o.RetryDelay(); !ok || d != want {
			t.Errorf("at least %v: retried after %v, want %v", least, d, want)
		}
	}
	var o *workqueue.Outcome
	if err := later.Outcome(Permanent, 0); !errors.As(err, &o) || !o.IsPermanent() {
		t.Errorf("got %v", err)
	}
	if err := (Answer{Status: 301, Location: "/there", Excerpt: "<html>"}).Outcome(Retry, 0); err.Error() !=
		"the receiver answered 301 Moved Permanently: redirects are not followed, this one leads to /there" {
		t.Errorf("a redirect: %v", err)
	}
	if err := (Answer{Status: 599}).Outcome(Retry, time.Hour); errors.As(err, &o) ||
		err.Error() != "the receiver answered 599" {
		t.Errorf("without Retry-After the backoff is the row's own: %v", err)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order.placed": "order.placed", "a b/c:d": "a b/c:d", " a ": "%20a%20", "50%": "50%25",
		"Grüße": "Gr%C3%BC%C3%9Fe", "a\r\nb": "a%0D%0Ab", "\x00": "%00",
	} {
		if got := encode(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLocationIsBoundedAndHasNoPassword(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("ä", 1000)
	for text, want := range map[string]string{
		"": "", "/there": "/there", "https://a.example/b?c=d": "https://a.example/b?c=d", ":": "",
		"https://u:secret@a.example/": "https://u:xxxxx@a.example/", "/a\x00b\nc": "",
		"/%0a": "/%0a",
	} {
		if got := location(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := location(long); len(got) > maxExcerpt+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("a long one is shown as %q", got)
	}
}
