package webui_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/txwork/txwork/webui"
	"github.com/txwork/txwork/workqueue"
)

const (
	annsPassword = "correct horse"
	botsToken    = "0123456789abcdef-a-token"
)

// hashes are made once: to hash takes long on purpose.
var hashes = sync.OnceValue(func() (h struct{ password, token string }) {
	var errs [2]error
	h.password, errs[0] = webui.HashPassword(annsPassword)
	h.token, errs[1] = webui.HashToken(botsToken)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return h
})

func newAccounts(t *testing.T) *webui.Accounts {
	t.Helper()
	a, err := webui.NewAccounts(
		webui.Account{User: webui.User{Name: "ann", Role: webui.Operator}, PasswordHash: hashes().password},
		webui.Account{User: webui.User{Name: "bot"}, TokenHash: hashes().token})
	must(t, err)
	return a
}

// ask is a request with an Authorization header, from an address.
func ask(authorization, from string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

func basic(name, password string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

func TestPasswordsAndTokensIdentifyTheirUsers(t *testing.T) {
	t.Parallel()
	a := newAccounts(t)
	for authorization, want := range map[string]string{
		basic("ann", annsPassword): "ann", "Bearer " + botsToken: "bot", "bearer  " + botsToken: "bot",
		"": "", "Bearer": "", "Bearer ": "", "Bearer " + botsToken + "x": "", "Basic " + botsToken: "", botsToken: "",
		basic("ann", "wrong horse"): "", basic("bot", ""): "", basic("bot", botsToken): "", basic("", ""): "",
		basic("ann", hashes().password): "", "Bearer " + hashes().token: "",
	} {
		user, err := a.Authenticate(ask(authorization, "192.0.2.1:1"))
		if user.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", authorization, user.Name, err)
		}
	}
	if user, _ := a.Authenticate(ask(basic("ann", annsPassword), "192.0.2.1:1")); user.Role != webui.Operator {
		t.Errorf("ann is %v", user)
	}
}

// Whoever tries passwords is stopped, and so is everybody else at that address but those who have signed in.
func TestWrongPasswordsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, wrongPasswordsAreLimited) // no time passes, however long a password takes
}

func wrongPasswordsAreLimited(t *testing.T) {
	a := newAccounts(t)
	good := ask(basic("ann", annsPassword), "192.0.2.1:1")
	if _, err := a.Authenticate(good); err != nil {
		t.Fatal(err)
	}
	var refused error
	for i := 0; i < 20 && (refused == nil || !strings.Contains(refused.Error(), "too many")); i++ {
		_, refused = a.Authenticate(ask(basic("ann", fmt.Sprint("guess", i)), "[2001:db8::1]:"+fmt.Sprint(i+1)))
	}
	if refused == nil || !strings.Contains(refused.Error(), "too many") {
		t.Fatalf("20 wrong passwords: %v", refused)
	}
	for from, want := range map[string]bool{"[2001:db8::2]:5": true, "[2001:db8:0:1::1]:5": false,
		"192.0.2.2:1": false} {
		_, err := a.Authenticate(ask(basic("ann", "another"), from))
		if got := strings.Contains(err.Error(), "too many"); got != want {
			t.Errorf("a request from %s: %v", from, err)
		}
	}
	good.RemoteAddr = "[2001:db8::1]:9"
	if _, err := a.Authenticate(good); err != nil {
		t.Errorf("who has signed in is locked out: %v", err)
	}
}

func TestAccountsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	h := hashes()
	for want, all := range map[string][]webui.Account{
		"accounts are missing":      nil,
		`the name ""`:               {{TokenHash: h.token}},
		`the name "a:b"`:            {{User: webui.User{Name: "a:b"}, TokenHash: h.token}},
		`the name "a"`:              {{User: webui.User{Name: "a"}, TokenHash: h.token}, {User: webui.User{Name: "a"}}},
		"neither":                   {{User: webui.User{Name: "a"}}},
		"HashPassword did not make": {{User: webui.User{Name: "a"}, PasswordHash: annsPassword}},
		"a PasswordHash":            {{User: webui.User{Name: "a"}, PasswordHash: "pbkdf2-sha256$1$YWFhYWFhYWFhYWFhYWFhYQ$YQ"}},
		"HashToken did not make":    {{User: webui.User{Name: "a"}, TokenHash: botsToken}},
		"of another account": {{User: webui.User{Name: "a"}, TokenHash: h.token},
			{User: webui.User{Name: "b"}, TokenHash: h.token}},
	} {
		_, err := webui.NewAccounts(all...)
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), annsPassword) || strings.Contains(err.Error(), botsToken) {
			t.Errorf("NewAccounts says %v, want %q and no secret", err, want)
		}
	}
	if _, err := webui.HashPassword("short"); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("a short password: %v", err)
	}
	if _, err := webui.HashToken("short"); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("a short token: %v", err)
	}
	other, err := webui.HashPassword(annsPassword)
	if must(t, err); other == h.password {
		t.Error("two hashes of a password are the same")
	}
}

// What a request is refused for is told to the log, and only what to do to its sender.
func TestOnlyWhoIsKnownSeesPages(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t)
	s := newSite(t, func(c *webui.Config) { c.Insecure, c.Authenticate = false, accounts.Authenticate })
	s.fill()
	paths := []string{"/", "/dead", "/queues", "/find?q=x", "/t/jobs", "/t/jobs/ready", "/t/none/ready", "/none",
		"/assets/none"}
	for _, path := range paths {
		a := s.get(path)
		if want := a.header.Get("WWW-Authenticate"); a.status != http.StatusUnauthorized ||
			!strings.HasPrefix(want, "Basic ") {
			t.Errorf("%s without credentials has status %d and wants %q", path, a.status, want)
		}
		if strings.Contains(a.body, "postcards") || strings.Contains(a.body, "greet") {
			t.Errorf("%s without credentials shows:\n%s", path, a.body)
		}
	}
	s.shows("/assets/style.css", http.StatusOK) // of the page that says so
	s.header.Set("Authorization", basic("ann", annsPassword))
	s.shows("/", http.StatusOK, "signed in as <bdi>ann</bdi>", "postcards")
	s.header.Set("Authorization", "Bearer "+botsToken)
	s.shows("/t/jobs/ready", http.StatusOK, "signed in as <bdi>bot</bdi>")
}

func TestAHookMayRefuse(t *testing.T) {
	t.Parallel()
	var refuse error
	s := newSite(t, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) { return webui.User{}, refuse }
	})
	refuse = fmt.Errorf("not in the group: %w", webui.ErrForbidden)
	s.shows("/", http.StatusForbidden, "You may not look here")
	refuse = errors.New("ldap://secret-host does not answer")
	s.shows("/", http.StatusUnauthorized, "Who are you?")
	s.lacks("/", "secret-host")
	if !strings.Contains(s.log.String(), "secret-host") {
		t.Errorf("the log does not say why: %s", s.log)
	}
}

// A user of some tables learns nothing of the others.
func TestAUserSeesHisTablesOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(r *http.Request) (webui.User, error) {
			return webui.User{Name: "ann", Tables: []string{"outbox"}}, nil
		}
	})
	s.fill()
	s.record()
	id := s.id("SELECT id FROM {schema}.jobs WHERE status = 3 LIMIT 1")
	for _, path := range []string{"/", "/dead", "/queues", "/history", "/find?q=" + id, "/find?q=greet",
		"/t/jobs/ready", "/t/jobs/row/" + id} {
		s.lacks(path, "t/jobs", "postcards", "timers", "smtp", "mail")
	}
	s.shows("/t/jobs/ready", http.StatusNotFound, "There is no such table")
	s.shows("/t/jobs/row/"+id, http.StatusNotFound, "There is no such table")
	s.shows("/find?q="+id, http.StatusOK, "No table has a row")
	s.shows("/t/outbox/ready", http.StatusOK, "orders")
}
