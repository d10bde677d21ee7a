package alarms_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

const (
	aliceToken = "alice-token-0123456789"
	bobToken   = "bob-token-0123456789"
)

// An api is the REST API on a schema of its own. Every exchange is checked against the OpenAPI document.
type api struct {
	*fixture
	server *alarms.Server
	doc    *document
}

func newAPI(t testing.TB, o alarms.ServerOptions) *api {
	t.Helper()
	return serveAPI(newAlarms(t), o)
}

func serveAPI(f *fixture, o alarms.ServerOptions) *api {
	f.Helper()
	tokens, err := alarms.NewTokens(map[string]alarms.Owner{
		aliceToken: {DID: alice, UserID: aliceUser},
		bobToken:   {DID: bob, UserID: bobUser},
	})
	if err != nil {
		f.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := alarms.NewServer(f.store, tokens, o)
	if err != nil {
		f.Fatal(err)
	}
	return &api{f, s, readDocument(f)}
}

// in returns the same API for another test.
func (a *api) in(t testing.TB) *api {
	f := *a.fixture
	f.TB = t
	return &api{&f, a.server, a.doc}
}

// An exchange is the answer to a request.
type exchange struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

func (a *api) do(token, method, path, body string) exchange {
	a.Helper()
	r := httptest.NewRequestWithContext(a.Context(), method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	a.server.ServeHTTP(w, r)
	x := exchange{a, w.Code, w.Header(), w.Body.Bytes()}
	a.doc.check(a, method, r.URL.Path, body, x)
	return x
}

func (x exchange) says(status int, texts ...string) exchange {
	x.t.Helper()
	if x.status != status {
		x.t.Errorf("status %d, want %d: %s", x.status, status, x.body)
	}
	for _, text := range texts {
		if !bytes.Contains(x.body, []byte(text)) {
			x.t.Errorf("got %s, want in it %s", x.body, text)
		}
	}
	return x
}

func data[T any](x exchange) (v T) {
	x.t.Helper()
	answer := struct{ Data *T }{&v}
	if err := json.Unmarshal(x.body, &answer); err != nil {
		x.t.Fatal(err)
	}
	return v
}
