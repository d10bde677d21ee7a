package alarms_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue"
)

var (
	oldSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	newSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32)))
)

func newHTTPWaker(t testing.TB, o alarms.HTTPWakerOptions) *alarms.HTTPWaker {
	t.Helper()
	w, err := alarms.NewHTTPWaker(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// serve starts a receiver of wakes, and returns its URL.
func serve(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

func aWake() alarms.Wake {
	return alarms.Wake{
		UserID: "alice", Message: "go <on>", Payload: json.RawMessage(`{"a":1}`),
		AlarmID: "11111111-2222-3333-4444-555555555555", Origin: alarms.Origin,
		FireAt: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC), Attempt: 2,
	}
}

func TestAWakeIsASignedPost(t *testing.T) {
	t.Parallel()
	type post struct {
		method string
		header http.Header
		body   []byte
	}
	posts := make(chan post, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- post{r.Method, r.Header, body}
		w.WriteHeader(http.StatusAccepted)
	})
	waker := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, Secrets: []string{newSecret, oldSecret},
		Token: "a token", AllowPrivate: true})
	if err := waker.Wake(t.Context(), aWake()); err != nil {
		t.Fatal(err)
	}
	p := receive(t, posts)
	if p.method != "POST" || p.header.Get("Content-Type") != "application/json" ||
		p.header.Get("Authorization") != "Bearer a token" {
		t.Errorf("got %s %v", p.method, p.header)
	}
	if got := p.header.Get(webhook.HeaderID); got != "alarm_11111111-2222-3333-4444-555555555555_1896080400000000" {
		t.Errorf("%s is %q", webhook.HeaderID, got)
	}
	var got map[string]any
	if err := json.Unmarshal(p.body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"user_id": "alice", "message": "go <on>", "payload": map[string]any{"a": 1.0},
		"alarm_id": "11111111-2222-3333-4444-555555555555",
		"origin":   "chronos", "fire_at": "2030-01-31T09:00:00Z", "attempt": 2.0,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, secret := range []string{oldSecret, newSecret} {
		s, err := webhook.NewSigner(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(p.header, p.body, 0); err != nil {
			t.Errorf("a receiver that knows one of the secrets: %v", err)
		}
		if _, err := s.Verify(p.header, append(p.body, ' '), 0); !errors.Is(err, webhook.ErrSignature) {
			t.Errorf("a body that was changed: %v", err)
		}
	}
}

func TestWhateverIsNot2xxIsAFailure(t *testing.T) {
	t.Parallel()
	followed := make(chan string, 1)
	elsewhere := serve(t, func(_ http.ResponseWriter, r *http.Request) { followed <- r.URL.Path })
	for status, want := range map[int]string{
		200: "", 201: "", 204: "", 299: "",
		301: "301 Moved Permanently", 302: "302 Found", 307: "307", 308: "308",
		400: "400 Bad Request: because", 404: "404", 429: "429", 500: "500", 503: "503",
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if status >= 300 && status < 400 {
				http.Redirect(w, r, elsewhere, status)
			} else if w.WriteHeader(status); status >= 300 {
				io.WriteString(w, "because\x00\xff"+strings.Repeat(".", 10_000))
			}
		})
		err := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, AllowPrivate: true}).Wake(t.Context(), aWake())
		switch {
		case want == "" && err != nil:
			t.Errorf("%d: %v", status, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400):
			t.Errorf("%d: %v", status, err)
		}
	}
	if len(followed) > 0 {
		t.Errorf("a redirect was followed to %s", <-followed)
	}
}

func TestAReceiverThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	gone := make(chan bool)
	for name, handle := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { <-gone },
		"an answer that does not end": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			http.NewResponseController(w).Flush()
			<-gone
		},
	} {
		url := serve(t, handle)
		start := time.Now()
		err := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, Timeout: 100 * time.Millisecond,
			AllowPrivate: true}).Wake(t.Context(), aWake())
		if err == nil || time.Since(start) > patience {
			t.Errorf("%s: %v", name, err)
		}
		if name == "no answer" && err.Error() != "no answer within 100ms" {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(gone)
}

// A short answer is read completely, so that its connection can be reused. An endless answer must not be.
func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	stopped := make(chan bool, 1)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				stopped <- true
				return
			}
		}
	})
	if err := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, AllowPrivate: true}).Wake(t.Context(),
		aWake()); err != nil {
		t.Errorf("it said 200: %v", err)
	}
	receive(t, stopped)
}

// The address that is dialled decides, whatever name was resolved to it.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	reached := make(chan bool, 1)
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached <- true })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1.2.3", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "10.0.0.1",
		"172.16.0.1", "192.168.1.1",
		"169.254.169.254", "[fe80::1]", "[fd00::1]", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1",
		"255.255.255.255", "240.0.0.1",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "[ff02::1]", "[2001::1]",
		"[::ffff:0:127.0.0.1]", "[200::1]", "[5f00::1]", "[4000::1]",
	} {
		waker := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: "http://" + host + ":" + port + "/secret-path",
			Timeout: patience})
		err := waker.Wake(t.Context(), aWake())
		if err == nil || !strings.Contains(err.Error(), "is not public") {
			t.Errorf("%s: %v", host, err)
		} else if strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: the error tells the URL: %v", host, err)
		}
	}
	if len(reached) > 0 {
		t.Error("the receiver was reached")
	}
}

// A proxy would dial any address for the waker, so the check of addresses would have no effect.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	proxied := make(chan bool, 1)
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied <- true })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := newHTTPWaker(t, alarms.HTTPWakerOptions{URL: "http://wake.invalid"}).Wake(ctx, aWake()); err == nil ||
		len(proxied) > 0 {
		t.Errorf("error %v, %d proxied", err, len(proxied))
	}
}

func TestHTTPWakersThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]alarms.HTTPWakerOptions{
		"no url":       {},
		"scheme":       {URL: "ftp://example.org"},
		"no scheme":    {URL: "example.org/wake"},
		"no host":      {URL: "http:///wake"},
		"password":     {URL: "http://user:hunter2@example.org"},
		"control":      {URL: "http://exa\nmple.org"},
		"timeout":      {URL: "http://example.org", Timeout: -1},
		"token":        {URL: "http://example.org", Token: "a\r\nX: y"},
		"secret":       {URL: "http://example.org", Secrets: []string{"hunter2"}},
		"short secret": {URL: "http://example.org", Secrets: []string{"whsec_aHVudGVyMg=="}},
		"no base64":    {URL: "http://example.org", Secrets: []string{"whsec_hunter2!"}},
	} {
		w, err := alarms.NewHTTPWaker(o)
		if w != nil {
			t.Errorf("%s: a waker beside the error %v", name, err)
		}
		if !errors.Is(err, workqueue.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The receiver's address is for the operator only, and an alarm's owner can read last_error.
func TestFailuresDoNotTellWhereTheReceiverIs(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"unknown":     "https://hidden-host.invalid/secret",
		"not public":  "http://127.0.0.1:1/secret",
		"unreachable": "http://127.0.0.1:1/secret",
	} {
		w, err := alarms.NewHTTPWaker(alarms.HTTPWakerOptions{URL: url, Token: "t",
			AllowPrivate: name == "unreachable"})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Wake(t.Context(), alarms.Wake{})
		if err == nil {
			t.Fatalf("%s: delivered", name)
		}
		for _, secret := range []string{"hidden-host", "127.0.0.1", "secret", ":53"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
