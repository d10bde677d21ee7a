package alarms_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
)

// listening serves the API on a listener of its own, and returns its address.
func (a *api) listening() string {
	a.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.Fatal(err)
	}
	server := a.server.HTTP()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(a.server.Listener(l)) }()
	a.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			a.Error(err)
		}
	})
	return l.Addr().String()
}

func (a *api) dial(address string) net.Conn {
	a.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// An answerOf is an answer as it was sent.
func (a *api) answerOf(c net.Conn) (status int, body string) {
	a.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		a.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.Error(err)
	}
	if kind := response.Header.Get("Content-Type"); kind != "application/json" {
		a.Errorf("%d has content type %q", response.StatusCode, kind)
	}
	return response.StatusCode, string(text)
}

// Whatever is sent, the answer is an envelope, also if it is none of the API's own.
func TestEveryAnswerIsAnEnvelope(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	address := a.listening()
	for request, want := range map[string]int{
		"nonsense\r\n\r\n":                400,
		"GET /v1/alarms HTTP/1.1\r\n\r\n": 400, // no host
		"GET /v1/alarms HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n":                    400,
		"GET /v1/alarms HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n":                 417,
		"GET /v1/alarms HTTP/1.0\r\nHost: a\r\nExpect: miracles\r\n\r\n":                 417,
		"GET / HTTP/1.1\r\nHost: a\r\nLarge: " + strings.Repeat("x", 1<<17) + "\r\n\r\n": 431,
		"POST /v1/alarms HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n":         501,
		"GET / HTTP/3.7\r\nHost: a\r\n\r\n":                                              505,
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n":                                          404,
		"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n":                                      404,
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                              200,
		"GET /?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                        400,
	} {
		c := a.dial(address)
		fmt.Fprint(c, request)
		status, body := a.answerOf(c)
		var e struct {
			OK    *bool
			Error *struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.OK == nil || *e.OK != (want == 200) ||
			want != 200 && (e.Error == nil || e.Error.Code == "" || e.Error.Message == "") || status != want {
			t.Errorf("%.60q is answered by %d %q, want %d", request, status, body, want)
		}
	}
}

// A client that opens many connections does not use up the server's files; a further one learns why it is refused.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{MaxConnections: 2})
	address := a.listening()
	open := []net.Conn{a.dial(address), a.dial(address)}
	for _, c := range open {
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if status, body := a.answerOf(c); status != 200 {
			t.Errorf("got %d %s", status, body)
		}
	}
	if status, body := a.answerOf(a.dial(address)); status != 503 || !strings.Contains(body, `"code":"unavailable"`) {
		t.Errorf("got %d %s", status, body)
	}
	open[0].Close()
	a.until("another connection is taken", func() bool {
		c := a.dial(address)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == 200
	})
}

// What is wrong with a query is told, where package net/url would leave it out.
func TestQueriesAreReadAsAWhole(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	for query, want := range map[string]string{
		"limit=10%zz": `"field":"query"`, "limit=10;cursor=x": `"field":"query"`, "limit=1&limit=2": `"field":"limit"`,
		"limt=10": `"field":"limt"`,
	} {
		a.do(aliceToken, "GET", "/v1/alarms?"+query, "").says(400, `"code":"invalid_request"`, want)
	}
	a.do(aliceToken, "GET", "/v1/alarms?limit=10", "").says(200)
	a.do("", "GET", "/healthz?%zz", "").says(400, `"field":"query"`)
}

// A panicking Authenticator is the server's own trouble.
func TestAPanicIsAnswered(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	s, err := alarms.NewServer(a.store, panics{}, alarms.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.server = s
	a.do(aliceToken, "GET", "/v1/alarms", "").says(500, `"code":"internal"`)
}

type panics struct{}

func (panics) Authenticate(*http.Request) (alarms.Owner, error) { panic("no tokens") }

// A request for which there is no connection is answered in time, and may be repeated.
func TestADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	a.Pool.Close()
	x := a.do(aliceToken, "GET", "/v1/alarms", "").says(503, `"code":"unavailable"`, `"retryable":true`)
	if x.header.Get("Retry-After") == "" {
		t.Error("nothing says when to try again")
	}
}
