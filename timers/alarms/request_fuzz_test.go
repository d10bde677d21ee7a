package alarms_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// No request makes the server fail, and every answer is JSON. The router may redirect to the clean form of a path.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/", "/healthz", "/v1/alarms", "/v1/alarms?limit=1", "/v1/alarms?limit=-1",
		"/v1/alarms?limit=99999999999999999999", "/v1/alarms?limit=%00",
		"/v1/alarms/01890a5d-ac96-774b-bcce-b302099a8057", "/v1/alarms/%2e%2e", "/v1//alarms", "/v1/alarms/%ff",
		"/v1/alarms/{id}", "*",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"} {
			f.Add(method, target, `{"kind": "once", "delay_seconds": 5, "wake_message": "m"}`)
		}
	}
	all := newAPI(f, alarms.ServerOptions{Rate: -1})
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target +
			" HTTP/1.1\r\nHost: txwork\r\n\r\n")))
		if err != nil {
			t.Skip("package net/http refuses it before any handler")
		}
		r = r.WithContext(t.Context())
		r.Header.Set("Authorization", "Bearer "+aliceToken)
		r.Body = http.NoBody
		if body != "" {
			r.Body = httptest.NewRequest("POST", "/", strings.NewReader(body)).Body
		}
		w := httptest.NewRecorder()
		all.server.ServeHTTP(w, r)
		switch redirected := w.Code >= 300 && w.Code < 400; {
		case w.Code >= 500:
			t.Fatalf("%s %q: status %d: %s", method, target, w.Code, w.Body)
		case !redirected && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()):
			t.Fatalf("%s %q: status %d with what is no JSON: %q", method, target, w.Code, w.Body)
		}
	})
}
