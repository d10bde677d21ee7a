package webui_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

// Environment variables that turn the test binary into a process that serves a dashboard.
const (
	processURLEnv    = "WEBUI_TEST_URL"
	processSchemaEnv = "WEBUI_TEST_SCHEMA"
)

// dashboardProcess serves a dashboard until it is killed. It prints its address.
func dashboardProcess(url string) {
	pool, err := pgxpool.New(context.Background(), url)
	if err == nil {
		c := webui.Config{Pool: pool, Schema: os.Getenv(processSchemaEnv), Timeout: pgtest.Patience,
			StatementTimeout: pgtest.Patience}
		acting(&c)
		var page http.Handler
		if page, err = webui.New(c); err == nil {
			fmt.Println(httptest.NewServer(http.StripPrefix(prefix, page)).URL)
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// process serves the schema in a process of its own.
func (s *site) process() (other *site, kill func()) {
	s.Helper()
	binary, err := os.Executable()
	must(s, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), processURLEnv+"="+s.db.URL, processSchemaEnv+"="+s.db.Schema)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(s, err)
	must(s, cmd.Start())
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	s.Cleanup(kill)
	address, err := bufio.NewReader(out).ReadString('\n')
	must(s, err)
	copied := *s
	copied.server = &httptest.Server{URL: strings.TrimSpace(address)}
	return &copied, kill
}

// An action whose batch waits goes on for as long as its process lives, and is resumed when that was killed.
func TestAnActionWhoseProcessIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting).as("ann")
	other, kill := s.process()
	form, goOn := other.halfway()
	path := "/audit/" + form.Get("action")
	long := func() { s.exec("UPDATE {schema}.audit SET at = at - interval '10 min'") } // ago is what happened so far
	long()
	if !pgtest.Await(pgtest.Patience, func() bool { return strings.Contains(s.get(path).body, "Running.") }) {
		t.Errorf("nobody knows that its process lives:\n%s", content(s.get(path).body))
	}
	kill()
	interrupted := func() bool {
		long()
		return strings.Contains(s.get(path).body, "Interrupted: its process has ended")
	}
	if !pgtest.Await(pgtest.Patience, interrupted) {
		t.Fatalf("nobody knows that its process was killed:\n%s", content(s.get(path).body))
	}
	goOn()
	s.shows(path, http.StatusOK, "1,000 of 3,000", "/resume")
	s.post(path+"/resume", nil)
	if body := s.ended(form.Get("action")); !strings.Contains(body, "3,000 of 3,000") {
		t.Errorf("it is not resumed:\n%s", content(body))
	}
	s.lacks("/audit", "alive")
}
