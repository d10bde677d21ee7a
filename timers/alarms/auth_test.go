package alarms_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

func TestNobodyGetsInWithoutAToken(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	created := a.create(once())
	for _, token := range []string{"", "wrong", aliceToken + "x", aliceToken[:len(aliceToken)-1],
		strings.ToUpper(aliceToken)} {
		for _, request := range [][2]string{{"POST", "/v1/alarms"}, {"GET", "/v1/alarms"},
			{"GET", "/v1/alarms/" + created.ID}, {"DELETE", "/v1/alarms/" + created.ID}} {
			x := a.do(token, request[0], request[1],
				`{"kind": "once", "delay_seconds": 5, "wake_message": "m"}`).says(401, `"code":"unauthorized"`)
			if x.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("header %v", x.header)
			}
		}
	}
	if n := ask[int](a.fixture, "SELECT count(*) FROM "+a.table+" WHERE status = 'active'"); n != 1 {
		t.Errorf("%d alarms", n)
	}
}

func TestOwnersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	created := a.create(once())
	for _, id := range []string{created.ID, uuid.NewString(), "no-uuid", "%00", "..%2f..", strings.Repeat("9", 1000)} {
		theirs := a.do(bobToken, "GET", "/v1/alarms/"+id, "").says(404, `"code":"not_found"`)
		a.do(bobToken, "DELETE", "/v1/alarms/"+id, "").says(404)
		if unknown := a.do(bobToken, "GET", "/v1/alarms/"+uuid.NewString(), ""); !bytes.Equal(theirs.body,
			unknown.body) {
			t.Errorf("an alarm of another owner can be told from one that does not exist: %s and %s", theirs.body,
				unknown.body)
		}
	}
	a.do(aliceToken, "GET", "/v1/alarms/"+created.ID, "").says(200, `"active"`)
}

// The authenticator is called before anything else, and a failure of it admits no request.
func TestAnAuthenticatorOfYourOwn(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for status, auth := range map[int]authenticator{
		401: func(*http.Request) (alarms.Owner, error) { return alarms.Owner{}, nil },
		500: func(*http.Request) (alarms.Owner, error) { return alarms.Owner{DID: alice}, errors.New("away") },
		200: func(r *http.Request) (alarms.Owner, error) {
			return alarms.Owner{DID: r.Header.Get("X-Agent"), UserID: "u"}, nil
		},
	} {
		s, err := alarms.NewServer(f.store, auth, alarms.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/v1/alarms", nil)
		r.Header.Set("X-Agent", alice)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != status {
			t.Errorf("status %d, want %d", w.Code, status)
		}
	}
}

type authenticator func(*http.Request) (alarms.Owner, error)

func (a authenticator) Authenticate(r *http.Request) (alarms.Owner, error) { return a(r) }

func TestTokensFailClosed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": ``, "none": `{}`, "null": `null`, "a list": `[]`,
		"trailing": `{"0123456789abcdef": {"owner_did": "d", "user_id": "u"}} {}`,
		"short":    `{"hunter2": {"owner_did": "d", "user_id": "u"}}`,
		"empty":    `{"": {"owner_did": "d", "user_id": "u"}}`,
		"no owner": `{"0123456789abcdef": {"user_id": "u"}}`, "no user": `{"0123456789abcdef": {"owner_did": "d"}}`,
		"unknown member": `{"0123456789abcdef": {"owner_did": "d", "user_id": "u", "admin": true}}`,
		"spaces":         `{" 0123456789abcdef ": {"owner_did": "d", "user_id": "u"}}`,
	} {
		if _, err := alarms.ParseTokens([]byte(text)); !errors.Is(err, workqueue.ErrInvalid) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := alarms.NewServer(newAlarms(t).store, nil, alarms.ServerOptions{}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("no authenticator: %v", err)
	}
	if _, err := alarms.NewServer(nil, &alarms.Tokens{}, alarms.ServerOptions{}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
	if _, err := (&alarms.Tokens{}).Authenticate(httptest.NewRequest("GET", "/", nil)); !errors.Is(err,
		alarms.ErrUnauthorized) {
		t.Errorf("no tokens: %v", err)
	}
}

func ExampleParseTokens() {
	tokens,
		err := alarms.ParseTokens([]byte(`{"a-long-random-token": {"owner_did": "did:matrix:alice:01", "user_id": "alice"}}`))
	if err != nil {
		panic(err)
	}
	r, _ := http.NewRequest("GET", "http://127.0.0.1:8080/v1/alarms", nil)
	r.Header.Set("Authorization", "Bearer a-long-random-token")
	owner, err := tokens.Authenticate(r)
	fmt.Println(owner.DID, err)
	// Output: did:matrix:alice:01 <nil>
}
