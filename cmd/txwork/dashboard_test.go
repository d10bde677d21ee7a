package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A dashboard answers on this machine, and only under its own names.
func TestServeShowsADashboard(t *testing.T) {
	c := newMigratedCLI(t)
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "serve", "--listen", "127.0.0.1:0", "--timeout", "2m",
		"--statement-timeout", "1m")
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	url := servingAt.FindString(stderr.String())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(host string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/t/outbox/ready", nil)
		must(t, err)
		request.Host = host
		response, err := client.Do(request)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body)
	}
	for host, want := range map[string]int{"": http.StatusOK, "localhost": http.StatusOK, "localhost:80": http.StatusOK,
		"[::1]:80": http.StatusOK, "127.0.0.2": http.StatusOK, "evil.example": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "192.0.2.1:80": http.StatusMisdirectedRequest} {
		status, body := ask(host)
		if status != want || strings.Contains(body, "Ready") != (want == http.StatusOK) {
			t.Errorf("a request to %q has status %d, want %d: %s", host, status, want, body)
		}
	}
	if code := stop(); code != exitOK || strings.Contains(stderr.String(), "level=") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// Browsers keep connections open, and others can still look.
func TestServeHasRoomForManyBrowsers(t *testing.T) {
	c := newMigratedCLI(t)
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "serve", "--listen", "127.0.0.1:0")
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	url := servingAt.FindString(stderr.String())
	var open []*http.Response
	transport := &http.Transport{}
	for range 150 { // a connection each, since the answer before is not read to its end
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/assets/style.css", nil)
		must(t, err)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Errorf("browser %d: %v", len(open)+1, err)
			break
		}
		open = append(open, response)
	}
	for _, response := range open {
		response.Body.Close()
	}
	transport.CloseIdleConnections()
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// accountsFile writes an accounts file, in which %s stands for the hash of a token.
func (c *cli) accountsFile(text string) string {
	c.t.Helper()
	r := execute(c.t, c.t.Context(), strings.NewReader(dashboardToken+"\n"), nil, "serve", "--hash", "token").ok()
	file := filepath.Join(c.t.TempDir(), "accounts.json")
	must(c.t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "%s", strings.TrimSpace(r.stdout))), 0o600))
	return file
}

const dashboardToken = "a-token-of-twenty-bytes"

func TestServeAsksForAccounts(t *testing.T) {
	c := newMigratedCLI(t)
	file := c.accountsFile(`{"bot": {"token_hash": "%s", "queues": {"jobs": ["mail"]}}}`)
	must(t, os.Chmod(file, 0o644))
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "serve", "--listen", "0.0.0.0:0", "--accounts-file", file)
	at := regexp.MustCompile(`http://\S+:(\d+)/`) // of all addresses
	eventually(t, "it serves", func() bool { return at.MatchString(stderr.String()) })
	port := at.FindStringSubmatch(stderr.String())[1]
	for header, want := range map[string]int{"": http.StatusUnauthorized, "Bearer x": http.StatusUnauthorized,
		"Bearer " + dashboardToken: http.StatusNotFound} {
		if got := statusOf(t, fmt.Sprintf("http://127.0.0.1:%s/t/outbox/ready", port), header); got != want {
			t.Errorf("%q has status %d, want %d", header, got, want)
		}
	}
	const advice = "guess its passwords: run chmod o-r"
	if !strings.Contains(stderr.String(), advice) {
		t.Errorf("it says nothing of a file that everybody can read: %s", stderr.String())
	}
	must(t, os.Chmod(file, 0o640))
	var quiet output
	again := c.runUntil(nil, io.Discard, &quiet, "serve", "--listen", "127.0.0.1:0", "--accounts-file", file)
	eventually(t, "it serves", func() bool { return at.MatchString(quiet.String()) })
	if again(); strings.Contains(quiet.String(), advice) {
		t.Errorf("it warns although the advice was followed: %s", quiet.String())
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// Who is removed from the accounts file may not look any more. A file that cannot be used changes nothing.
func TestServeReadsItsAccountsAgain(t *testing.T) {
	c := newMigratedCLI(t)
	file := c.accountsFile(`{"bot": {"token_hash": "%s"}}`)
	replace := func(text string) {
		must(t, os.WriteFile(file+".new", []byte(text), 0o600))
		must(t, os.Rename(file+".new", file))
	}
	with, err := os.ReadFile(file)
	must(t, err)
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "serve", "--listen", "127.0.0.1:0", "--accounts-file", file)
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	status := func() int {
		return statusOf(t, servingAt.FindString(stderr.String())+"/t/outbox/ready", "Bearer "+dashboardToken)
	}
	for _, text := range []string{`{"bot": {`, `{}`, `{"bot": {"token_hash": "x"}}`} {
		before := strings.Count(stderr.String(), "cannot be used")
		replace(text)
		eventually(t, "it says that the file cannot be used", func() bool {
			if got := status(); got != http.StatusOK {
				t.Fatalf("status %d with the file %s", got, text)
			}
			return strings.Count(stderr.String(), "cannot be used") > before
		})
	}
	other := strings.Repeat("ab", 32)
	replace(`{"other": {"token_hash": "` + other + `"}}`)
	eventually(t, "an account ends", func() bool { return status() == http.StatusUnauthorized })
	must(t, os.Remove(file))
	eventually(t, "it says that there is no file", func() bool {
		return status() == http.StatusUnauthorized && strings.Contains(stderr.String(), "no such file")
	})
	replace(string(with))
	eventually(t, "an account is back", func() bool { return status() == http.StatusOK })
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// Forms are carried out by the role of --actions-database-url, while pages are read by that of --database-url.
func TestServeActsAsAnotherRole(t *testing.T) {
	c := newMigratedCLI(t)
	acting := c.role("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
	file := c.accountsFile(`{"bot": {"token_hash": "%s", "role": "operator"}}`)
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "serve", "--listen", "127.0.0.1:0", "--accounts-file", file,
		"--actions", "--actions-database-url", acting.url, "--timeout", "2m", "--statement-timeout", "1m")
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	at := servingAt.FindString(stderr.String())
	if got := statusOf(t, at+"/t/outbox/ready", "Bearer "+dashboardToken); got != http.StatusOK {
		t.Errorf("a page has status %d", got)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/topics/pause",
		strings.NewReader("table=outbox&topic=mail"))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+dashboardToken)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, errors.Join(err, response.Body.Close()))
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "lacks a right") {
		t.Errorf("a form of a role without rights has status %d:\n%s", response.StatusCode, body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

func TestServeRefuses(t *testing.T) {
	c := newCLI(t)
	for want, args := range map[string][]string{
		"it needs --accounts-file":      {"--listen", ":0"},
		"others can reach this address": {"--listen", "0.0.0.0:0"},
		"--listen nowhere":              {"--listen", "nowhere"},
		"no such file":                  {"--accounts-file", filepath.Join(t.TempDir(), "none")},
		"unknown field":                 {"--accounts-file", c.accountsFile(`{"a": {"password": "x"}}`)},
		"it must be viewer or operator": {"--accounts-file", c.accountsFile(`{"a": {"token_hash": "%s", "role": "king"}}`)},
		"nobody could look":             {"--accounts-file", c.accountsFile(`{}`)},
		"has neither a password nor":    {"--accounts-file", c.accountsFile(`{"a": {}}`)},
		"has no queue of table": {"--accounts-file",
			c.accountsFile(`{"a": {"token_hash": "%s", "queues": {"jobs": []}}}`)},
		"as a whole and by queue": {"--accounts-file",
			c.accountsFile(`{"a": {"token_hash": "%s", "tables": ["jobs"], "queues": {"jobs": ["mail"]}}}`)},
		"which is shown as a whole only": {"--accounts-file",
			c.accountsFile(`{"a": {"token_hash": "%s", "queues": {"alarms": ["x"]}}}`)},
		"it must be password or token": {"--hash", "x"},
		"the standard input has no":    {"--hash", "password"},
		"must be whole milliseconds":   {"--statement-timeout", "1s1us"},
		"is for --actions":             {"--actions-database-url", "postgres://localhost/x"},
		"Timeout is -1s":               {"--timeout", "-1s"},
	} {
		c.run(append([]string{"serve"}, args...)...).exits(exitUsage).says(want)
	}
	execute(t, t.Context(), strings.NewReader("short"), nil, "serve", "--hash", "password").exits(exitUsage).
		says("it must have at least 8")
	execute(t, t.Context(), strings.NewReader("long enough\n"), nil, "serve", "--hash", "password").ok().
		prints("pbkdf2-sha256$")
}

// The unit for systemd serves a dashboard to those who have an account.
func TestTheUnitServesADashboard(t *testing.T) {
	c := newMigratedCLI(t)
	unit, err := os.ReadFile("../../deploy/txwork-dashboard.service")
	must(t, err)
	command := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/txwork (.*)$`).FindSubmatch(unit)
	if command == nil {
		t.Fatal("the unit does not start txwork")
	}
	file := c.accountsFile(`{"bot": {"token_hash": "%s"}}`)
	args := strings.Fields(strings.NewReplacer("%d", filepath.Dir(file), ":8088", ":0").Replace(string(command[1])))
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, args...)
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	for header, want := range map[string]int{"": http.StatusUnauthorized, "Bearer " + dashboardToken: http.StatusOK} {
		if got := statusOf(t, servingAt.FindString(stderr.String())+"/t/outbox/ready", header); got != want {
			t.Errorf("%q has status %d, want %d", header, got, want)
		}
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// statusOf asks for a page with an Authorization header.
func statusOf(t *testing.T, url, authorization string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	request.Header.Set("Authorization", authorization)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	must(t, err)
	response.Body.Close()
	return response.StatusCode
}

// Commands that pages of the dashboard advise exist, with their flags.
func TestPagesAdviseCommandsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../webui/pages/*.html")
	must(t, err)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range regexp.MustCompile(`<code>txwork ([^<{]+)</code>`).FindAllStringSubmatch(string(text), -1) {
			found++
			if problem := wrongWith(strings.Fields(m[1])); problem != "" {
				t.Errorf("%s: %s", filepath.Base(file), problem)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d commands were found", found)
	}
}
