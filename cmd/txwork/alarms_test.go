package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"github.com/txwork/txwork/webhook"
)

const (
	alarmsToken  = "a-long-random-token"
	alarmsTokens = `{"` + alarmsToken + `": {"owner_did": "did:matrix:alice:01", "user_id": "alice"}}`
)

var alarmsSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

func TestAlarmsServeRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"TXWORK_DATABASE_URL": "postgres://127.0.0.1:1/none", "TXWORK_ALARMS_TOKENS": alarmsTokens,
		"TXWORK_ALARMS_SECRET": alarmsSecret, "TXWORK_ALARMS_WAKE_URL": "https://example.org/wake",
	}
	for _, c := range []struct{ name, value, want string }{
		{"TXWORK_ALARMS_WAKE_URL", "", "--wake-url"},
		{"TXWORK_ALARMS_WAKE_URL", "ftp://example.org", "scheme"},
		{"TXWORK_ALARMS_TOKENS", "", "there are no tokens"},
		{"TXWORK_ALARMS_TOKENS", "{}", "tokens are missing"},
		{"TXWORK_ALARMS_TOKENS", `{"short": {"owner_did": "d", "user_id": "u"}}`, "at least 16"},
		{"TXWORK_ALARMS_TOKENS_FILE", "/does/not/exist", "--tokens-file"},
		{"TXWORK_ALARMS_SECRET", "", "--secret-file"},
		{"TXWORK_ALARMS_SECRET", "hunter2", "does not begin with"},
		{"TXWORK_ALARMS_TICK", "soon", `TXWORK_ALARMS_TICK is "soon"`},
		{"TXWORK_ALARMS_TICK", "0s", "--tick is 0s"},
		{"TXWORK_ALARMS_LEASE", "1ms", "--lease is 1ms"},
		{"TXWORK_ALARMS_BATCH", "0", "--batch is 0"},
		{"TXWORK_ALARMS_CONCURRENCY", "-1", "--concurrency is -1"},
		{"TXWORK_ALARMS_MAX_FAILURES", "0", "--max-failures is 0"},
		{"TXWORK_ALARMS_WAKE_TIMEOUT", "-1s", "--wake-timeout is -1s"},
		{"TXWORK_ALARMS_SHUTDOWN_TIMEOUT", "0s", "--shutdown-timeout is 0s"},
		{"TXWORK_ALARMS_ALLOW_PRIVATE", "perhaps", "it must be true or false"},
		{"TXWORK_ALARMS_RATE", "0", "cannot be 0"},
		{"TXWORK_DATABASE_URL", "", "no database"},
	} {
		env := map[string]string{}
		for name, value := range good {
			env[name] = value
		}
		env[c.name] = c.value
		r := execute(t, t.Context(), strings.NewReader(""), env, "alarms", "serve").exits(exitUsage).says(c.want)
		if strings.Contains(r.stderr, "hunter2") {
			t.Errorf("%s: the secret is shown: %s", c.name, r.stderr)
		}
	}
	execute(t, t.Context(), strings.NewReader(""), good, "alarms", "serve").exits(exitFailure).says("cannot be reached")
	execute(t, t.Context(), strings.NewReader(""), good, "alarms", "serve", "--tick",
		"0s").exits(exitUsage).says("--tick is 0s")
}

func TestAlarmsServeWithoutTables(t *testing.T) {
	c := newCLI(t)
	args := c.args("alarms", "serve", "--wake-url", "https://example.org/wake", "--listen", "127.0.0.1:0")
	execute(t, t.Context(), strings.NewReader(""), map[string]string{"TXWORK_ALARMS_TOKENS": alarmsTokens,
		"TXWORK_ALARMS_SECRET": alarmsSecret}, args...).
		exits(exitFailure).says("txwork migrate up")
}

// A producer's role can run the API but deliver nothing. The service refuses to start instead of logging errors
// forever.
func TestAlarmsServeWithARoleThatMayNotClaim(t *testing.T) {
	c := newMigratedCLI(t)
	role := c.db.Schema + "_api"
	c.exec("CREATE ROLE " + role)
	defer func() {
		_, err := c.db.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		must(t, err)
	}()
	c.exec("GRANT USAGE ON SCHEMA " + c.db.Schema + " TO " + role)
	c.exec("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA " + c.db.Schema + " TO " + role)
	u, err := url.Parse(c.url)
	must(t, err)
	query := u.Query()
	query.Set("role", role)
	u.RawQuery = query.Encode()
	c.url = u.String()
	args := c.args("alarms", "serve", "--wake-url", "https://example.org/wake", "--listen", "127.0.0.1:0")
	execute(t, t.Context(), strings.NewReader(""), map[string]string{"TXWORK_ALARMS_TOKENS": alarmsTokens,
		"TXWORK_ALARMS_SECRET": alarmsSecret}, args...).
		exits(exitFailure).says("it lacks UPDATE (status) on alarms", "UPDATE (locked_until) on timers", "txwork roles")
}

// output collects what a running command writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// runAlarms runs the command until stop.
func (c *cli) runAlarms(env map[string]string, stdout, stderr io.Writer, args ...string) (stop func() int) {
	c.t.Helper()
	return c.runUntil(env, stdout, stderr, append([]string{"alarms", "serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// runUntil runs a command line until stop.
func (c *cli) runUntil(env map[string]string, stdout, stderr io.Writer, args ...string) (stop func() int) {
	c.t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.t.Context()))
	a := &app{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr,
		getenv: func(name string) string { return env[name] }}
	code := make(chan int, 1)
	go func() { code <- a.run(ctx, c.args(args...)) }()
	stop = sync.OnceValue(func() int { cancel(errInterrupted); return <-code })
	c.t.Cleanup(func() { stop() })
	return stop
}

var servingAt = regexp.MustCompile(`http://[0-9.:]+`)

// serveAlarms runs the command, and returns the URL of the API and a function that stops it.
func (c *cli) serveAlarms(env map[string]string, args ...string) (url string, stop func() int) {
	c.t.Helper()
	var stderr output
	stop = c.runAlarms(env, io.Discard, &stderr, args...)
	eventually(c.t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	return servingAt.FindString(stderr.String()), stop
}

func TestAlarmsServeDeliversWhatWasPosted(t *testing.T) {
	c := newMigratedCLI(t)
	signer, err := webhook.NewSigner(alarmsSecret)
	must(t, err)
	wakes := make(chan error, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, err := signer.Verify(r.Header, body, 0)
		wakes <- err
	}))
	defer receiver.Close()
	dir := t.TempDir()
	tokens, secret := filepath.Join(dir, "tokens"), filepath.Join(dir, "secret")
	must(t, os.WriteFile(tokens, []byte(alarmsTokens), 0o600))
	must(t, os.WriteFile(secret, []byte(alarmsSecret+"\n"), 0o600))
	url, stop := c.serveAlarms(map[string]string{"TXWORK_ALARMS_TICK": "50ms", "TXWORK_ALARMS_MAX_FAILURES": "7"},
		"--wake-url", receiver.URL, "--tokens-file", tokens, "--secret-file", secret, "--allow-private")

	id := postAlarm(t, url, `{"kind": "once", "delay_seconds": 1, "wake_message": "go on"}`)
	if err := <-wakes; err != nil {
		t.Error(err)
	}
	eventually(t, "it has fired", func() bool {
		return value[string](c, "SELECT status FROM {schema}.alarms WHERE id = $1", id) == "fired"
	})
	if n := value[int](c, "SELECT max_failures FROM {schema}.alarms WHERE id = $1", id); n != 7 {
		t.Errorf("max_failures %d, want that of the environment", n)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// All parts of the command share one listener and a few connections, and the command prints the maximum.
func TestAlarmsServeKeepsWithinItsConnections(t *testing.T) {
	c := newMigratedCLI(t)
	c.url += "&application_name=" + c.db.Schema
	env := map[string]string{"TXWORK_ALARMS_TOKENS": alarmsTokens, "TXWORK_ALARMS_SECRET": alarmsSecret,
		"TXWORK_ALARMS_WAKE_URL": "https://example.org/wake"}
	var stdout, stderr output
	stop := c.runAlarms(env, &stdout, &stderr, "--json")
	listeners := func() int {
		return value[int](c, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}' AND query "+
			"LIKE 'LISTEN%'")
	}
	eventually(t, "it listens", func() bool { return listeners() > 0 })
	told := decode[struct {
		Serving        string
		MaxConnections int `json:"max_connections"`
	}](result{t: t, stdout: stdout.String()})
	formed(t, "txwork alarms serve", stdout.String())
	if !servingAt.MatchString(told.Serving) || stderr.String() != "" {
		t.Errorf("it serves %q, and stderr is %s", told.Serving, &stderr)
	}
	if n := listeners(); n != 1 {
		t.Errorf("%d sessions listen, want 1", n)
	}
	if n := value[int](c,
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}'"); n > told.MaxConnections {
		t.Errorf("there are %d sessions, and at most %d were announced", n, told.MaxConnections)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A delivery under way at a signal is finished and settled, and no further one begins. Meanwhile, requests are
// answered, and the probe says that the service stops.
func TestAlarmsServeStopsGracefully(t *testing.T) {
	c := newMigratedCLI(t)
	begun, release := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		begun <- struct{}{}
		<-release
	}))
	defer receiver.Close()
	url, stop := c.serveAlarms(map[string]string{"TXWORK_ALARMS_TOKENS": alarmsTokens,
		"TXWORK_ALARMS_SECRET": alarmsSecret, "TXWORK_ALARMS_TICK": "50ms"},
		"--wake-url", receiver.URL, "--allow-private", "--concurrency", "1")
	first := postAlarm(t, url, `{"kind": "once", "delay_seconds": 1, "wake_message": "first"}`)
	<-begun
	second := postAlarm(t, url, `{"kind": "once", "delay_seconds": 1, "wake_message": "second"}`)
	ended := make(chan int)
	go func() { ended <- stop() }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answered := func(path string) int {
		answer, err := client.Get(url + path)
		must(t, err)
		answer.Body.Close()
		return answer.StatusCode
	}
	eventually(t, "the probe says that it stops", func() bool { return answered("/healthz") == 503 })
	if got := answered("/"); got != http.StatusOK {
		t.Errorf("requests are answered with %d", got)
	}
	close(release)
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	status := func(id string) string {
		return value[string](c, "SELECT status FROM {schema}.alarms WHERE id = $1", id)
	}
	if status(first) != "fired" || status(second) == "fired" {
		t.Errorf("the alarm whose delivery was under way is %s, the other one %s", status(first), status(second))
	}
}

func postAlarm(t *testing.T, url, body string) (id string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/alarms", strings.NewReader(body))
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+alarmsToken)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	must(t, err)
	defer answer.Body.Close()
	var created struct{ Data struct{ ID string } }
	must(t, json.NewDecoder(answer.Body).Decode(&created))
	if answer.StatusCode != 200 || created.Data.ID == "" {
		t.Fatalf("answered %s", answer.Status)
	}
	return created.Data.ID
}

// The settings in docs/alarms.md are the flags with their defaults.
func TestTheAlarmsDocumentHasTheFlags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/alarms.md")
	must(t, err)
	want := &strings.Builder{}
	want.WriteString("| flag | environment | default | |\n|---|---|---|---|\n")
	newAlarmsServeCommand(&app{}).LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		fallback := f.DefValue
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		fmt.Fprintf(want, "| `--%s` | `%s` | %s | %s |\n", f.Name, envName(f.Name), fallback, usage)
	})
	_, rest, _ := strings.Cut(string(text), "<!-- flags -->\n")
	got, _, _ := strings.Cut(rest, "<!-- /flags -->")
	if got != want.String() {
		t.Errorf("between its markers for flags, docs/alarms.md must contain\n%s", want)
	}
}

// The defaults are those of the contract, even if our constants change.
func TestAlarmsServeHasTheContractsDefaults(t *testing.T) {
	t.Parallel()
	flags := newAlarmsServeCommand(&app{}).LocalNonPersistentFlags()
	for name, want := range map[string]string{"tick": "1s", "lease": "2m0s", "batch": "100", "max-failures": "5"} {
		if f := flags.Lookup(name); f == nil || f.DefValue != want {
			t.Errorf("--%s has the default %+v, want %s", name, f, want)
		}
	}
}

func TestAlarmsServeNeedsItsAddress(t *testing.T) {
	c := newMigratedCLI(t)
	env := map[string]string{"TXWORK_ALARMS_TOKENS": alarmsTokens, "TXWORK_ALARMS_WAKE_TOKEN": "t",
		"TXWORK_ALARMS_WAKE_URL": "https://example.org"}
	url, _ := c.serveAlarms(env)
	execute(t, t.Context(), strings.NewReader(""), env, c.args("alarms", "serve", "--listen",
		strings.TrimPrefix(url, "http://"))...).
		exits(exitFailure).says("address already in use")
}
