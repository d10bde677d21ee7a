package webui_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/webui"
)

// everywhere are all addresses that a dashboard answers, by method.
func (s *site) everywhere(id string) map[string][]string {
	all := map[string][]string{}
	for _, pattern := range webui.Routes(s.page) {
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			continue
		}
		all[method] = append(all[method], paths(path, map[string][]string{"table": {"outbox"}, "state": {"failed"},
			"verb": {"redrive", "pause"}, "id": {id}, "action": {uuid.NewString()}})...)
	}
	if len(all["GET"]) < 20 || len(all["POST"]) < 10 {
		s.Fatalf("the routes are %v", all)
	}
	return all
}

// Whoever may not look costs the database nothing, whatever they ask for.
func TestAStrangerCostsNoStatement(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pool, statements := recording(t, s.db)
	s = serve(t, s.db, acting, func(c *webui.Config) { c.Pool = pool })
	all := s.everywhere(uuid.NewString())
	statements.take()
	for _, path := range append(all["GET"], "/nothing", "/t/outbox/ready?error=x&newer=1h",
		"/find?q="+uuid.NewString()) {
		if a := s.get(path); a.status != http.StatusUnauthorized {
			t.Errorf("GET %s has status %d", path, a.status)
		}
	}
	for _, path := range all["POST"] {
		if a := s.post(path, nil); a.status != http.StatusUnauthorized {
			t.Errorf("POST %s has status %d", path, a.status)
		}
	}
	if all := statements.take(); len(all) > 0 {
		t.Errorf("a stranger has cost %d statements, such as %s", len(all), all[0])
	}
}

// Each action is refused to viewers, to operators without a name, and to pages of other sites, and changes nothing.
func TestEveryActionIsRefusedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting)
	s.letters(3, "mail")
	form := s.as("ann").confirm("/t/outbox/failed/redrive")
	id := s.id("SELECT id FROM {schema}.outbox LIMIT 1")
	form["id"], form["confirmed"], form["topic"], form["table"] = []string{id}, []string{"yes"}, []string{"mail"},
		[]string{"outbox"}
	const state = `SELECT md5(string_agg(o::text, '' ORDER BY id)) || (SELECT count(*) FROM {schema}.outbox_topic)
		FROM {schema}.outbox AS o`
	before := s.id(state)
	foreign := []http.Header{{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}},
		{"Origin": {"null"}}, {"Sec-Fetch-Site": {"same-site"}}}
	for _, path := range s.everywhere(id)["POST"] {
		for _, user := range []string{"vic", "nobody"} {
			if a := s.as(user).post(path, form); a.status != http.StatusForbidden {
				t.Errorf("%s as %s has status %d", path, user, a.status)
			}
		}
		for _, header := range foreign {
			if a := s.as("ann").post(path, form, header); a.status != http.StatusForbidden {
				t.Errorf("%s with %v has status %d", path, header, a.status)
			}
		}
	}
	s.is(before, state)
	s.is("", audited)
}

// No page has an address that a header names, so a proxy that passes on what clients send leads nobody elsewhere.
func TestHeadersLeadNowhereElse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill()
	s.read()
	for _, path := range []string{"/", "/t/jobs", "/t/jobs/failed", "/queues", "/find?q=x"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+prefix+path, nil)
		must(t, err)
		r.Host = "evil.example"
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Original-URL",
			"X-Rewrite-URL", "Forwarded", "Referer", "X-HTTP-Method-Override"} {
			r.Header.Set(name, "//evil.example/DELETE")
		}
		a := s.do(r)
		if strings.Contains(a.body+fmt.Sprint(a.header), "evil.example") || a.status >= http.StatusBadRequest {
			t.Errorf("%s has status %d, and %v:\n%s", path, a.status, a.header, content(a.body))
		}
	}
}

// What hooks of the host say when they fail is for the log. The page has a number, by which the log has it.
func TestAFailureThatNobodyForesawIsANumber(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	broken := map[string]func(*webui.Config){
		"a redaction that panics": func(c *webui.Config) {
			c.Redact = func(webui.Content) string { panic(secret) }
		},
		"an authentication that panics": func(c *webui.Config) {
			c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) { panic(secret) }
		},
		"an authentication that fails": func(c *webui.Config) {
			c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
				return webui.User{}, errors.New("ldap: bind as admin with " + secret)
			}
		},
	}
	for name, configure := range broken {
		s := newSite(t, configure)
		s.fill()
		for _, path := range []string{"/t/jobs/failed", "/dead"} {
			a := s.get(path)
			if a.status < http.StatusBadRequest || strings.Contains(a.body, secret) ||
				strings.Contains(a.body, "goroutine") {
				t.Errorf("%s: %s has status %d:\n%s", name, path, a.status, content(a.body))
			}
			number := regexp.MustCompile(`Look for ([\w-]{36}) in the log`).FindStringSubmatch(a.body)
			log := s.log.String()
			if !strings.Contains(log, secret) || number != nil && !strings.Contains(log, number[1]) {
				t.Errorf("%s: the log has %s", name, log)
			}
			if a.status == http.StatusInternalServerError && number == nil {
				t.Errorf("%s: the page has no number:\n%s", name, content(a.body))
			}
		}
	}
}

// A name with the end of a line in it begins none in the log.
func TestNamesForgeNoLines(t *testing.T) {
	t.Parallel()
	hash, err := webui.HashPassword("long enough")
	must(t, err)
	accounts, err := webui.NewAccounts(webui.Account{User: webui.User{Name: "ann"}, PasswordHash: hash})
	must(t, err)
	s := newSite(t, func(c *webui.Config) { c.Insecure, c.Authenticate = false, accounts.Authenticate })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+prefix+"/t/x%0Alevel=forged/y", nil)
	must(t, err)
	r.SetBasicAuth("x\nlevel=forged", "x\r\nlevel=forged")
	s.do(r)
	log, err := io.ReadAll(strings.NewReader(s.log.String()))
	must(t, err)
	if strings.Count(string(log), "\n") != 1 || strings.Contains(string(log), "forged") {
		t.Errorf("the log has %s", log)
	}
}
