package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// serverOnly are findings about the tests' server, which is fast rather than durable.
const serverOnly = "durability"

// printed is the output of doctor --json, as a client decodes it.
type printed struct {
	Healthy  bool
	Complete bool
	Schema   string
	Took     float64 `json:"took_seconds"`
	Findings []struct {
		Code, Severity, Title, Table, Meaning string
		Evidence                              []map[string]any
		Remedy                                struct {
			Do            string
			Commands, SQL []string
		}
		Fixable bool
	}
	Skipped []map[string]any
	Fixed   []struct{ Code, Title, Error string }
	Error   string
}

func (c *cli) doctor(args ...string) result {
	c.t.Helper()
	return c.doctorWith(strings.NewReader(""), args...)
}

// patiently sets timeouts so high that no test fails on a busy machine.
var patiently = []string{"doctor", "--timeout", "5m", "--statement-timeout", "1m", "--ignore", serverOnly}

func (c *cli) doctorWith(stdin io.Reader, args ...string) result {
	c.t.Helper()
	return c.runWith(c.t.Context(), stdin, append(slices.Clone(patiently), args...)...)
}

// overdue writes a message that has waited for an hour and that no worker claims.
func (c *cli) overdue() {
	c.t.Helper()
	c.enqueue(outbox.Message{Topic: "order.placed", Payload: []byte("{}")})
	c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '1 hour'")
}

func TestDoctorOfAHealthySystem(t *testing.T) {
	c := newMigratedCLI(t)
	c.doctor().ok().prints("schema "+c.db.Schema, "nothing is wrong")
	p := decode[printed](c.doctor("--json").ok())
	if !p.Healthy || !p.Complete || p.Schema != c.db.Schema || len(p.Findings) != 0 || p.Took <= 0 || p.Error != "" {
		t.Errorf("printed %+v", p)
	}
}

func TestDoctorsExitCodeIsTheSeverity(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("GRANT SELECT ON {schema}.outbox TO PUBLIC")
	c.doctor().exits(3).prints("0 critical, 1 warning", "WARNING  PUBLIC has 1 privilege", "[public-rights]",
		"impact:    ", "evidence:  privilege=", "fix:       ", "REVOKE SELECT").
		says("found 0 critical, 1 warning")
	c.doctor("--fail-on", "critical").ok().prints("public-rights")
	c.overdue()
	r := c.doctor().exits(4).prints("CRITICAL  outbox: 1 ready row and no worker claims them", "oldest_seconds=60m",
		"$ txwork list outbox --status ready --schema "+c.db.Schema)
	if strings.Index(r.stdout, "CRITICAL") > strings.Index(r.stdout, "WARNING") {
		t.Errorf("the worst does not come first:\n%s", r.stdout)
	}
	c.doctor("--fail-on", "critical").exits(4)
	c.doctor("--fail-on", "never").ok()
	c.doctor("--ignore", "unserved,public-rights").ok()
}

// A check that could not be made is no all-clear: the headline, the exit code and the JSON say so, and who is in the
// way.
func TestDoctorOfASystemThatItCannotSee(t *testing.T) {
	c := newMigratedCLI(t)
	tx, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+c.db.Schema+".outbox")
	must(t, err)
	pid := fmt.Sprint("pid=", tx.Conn().PgConn().PID())
	c.doctor().exits(exitIncomplete).prints("incomplete: nothing was found, but", "could not be made in full",
		"not checked: ", "in the way: "+pid, "lock=AccessExclusiveLock", "SELECT pg_terminate_backend(").
		says("incomplete: found 0 critical, 0 warnings; ")
	p := decode[printed](c.doctor("--json").exits(exitIncomplete))
	if p.Healthy || p.Complete || len(p.Skipped) == 0 || p.Skipped[0]["holders"] == nil {
		t.Errorf("printed %+v", p)
	}
	c.doctor("--fail-on", "critical").exits(exitIncomplete)
	c.doctor("--fail-on", "never").ok().prints("incomplete")
	c.greet(jobs.Insert{Queue: "mail"})
	c.exec("GRANT SELECT ON {schema}.jobs TO PUBLIC")
	c.doctor().exits(exitIncomplete).prints("incomplete: 0 critical, 1 warning; ")
	c.exec("UPDATE {schema}.jobs SET due_at = now() - interval '1 hour'")
	c.doctor().exits(exitCritical).prints("incomplete: 1 critical, 1 warning; ")
}

// Quotes in an error do not end its evidence.
func TestDoctorQuotesEvidence(t *testing.T) {
	c := newMigratedCLI(t)
	for range 6 {
		c.fail(`card "x"`, c.enqueue(outbox.Message{Topic: "charge", Payload: []byte("{}")})...)
	}
	c.doctor().exits(3).prints("[poison]", `topic=charge`, `error="card \"x\"" ids=`)
}

func TestDoctorsJSON(t *testing.T) {
	c := newMigratedCLI(t)
	c.overdue()
	p := decode[printed](c.doctor("--json").exits(4))
	if p.Healthy || len(p.Findings) != 1 {
		t.Fatalf("printed %+v", p)
	}
	f := p.Findings[0]
	if f.Code != "unserved" || f.Severity != "critical" || f.Table != "outbox" || f.Meaning == "" ||
		f.Remedy.Do == "" ||
		len(f.Remedy.Commands) == 0 || len(f.Evidence) != 1 || f.Evidence[0]["ready_at_least"] != 1.0 ||
		f.Evidence[0]["oldest_seconds"].(float64) < 3600 {
		t.Errorf("finding %+v", f)
	}
}

// A failure is also reported in the JSON, in the form of all commands.
func TestDoctorsJSONOfAFailure(t *testing.T) {
	t.Parallel()
	env := map[string]string{databaseURLEnv: "postgres://u:secret@127.0.0.1:1/none?connect_timeout=1"}
	r := execute(t, t.Context(), strings.NewReader(""), env, "doctor",
		"--json").exits(exitFailure).says("cannot be reached")
	if f := decode[failure](r); f.ExitCode != exitFailure || !strings.Contains(f.Error, "cannot be reached") ||
		strings.Contains(r.stdout, "secret") {
		t.Errorf("printed %s", r.stdout)
	}
	execute(t, t.Context(), strings.NewReader(""), env, "doctor", "--json", "--fail-on",
		"x").exits(exitUsage).prints(`"error":"--fail-on`)
}

func TestDoctorFixesWhatIsSafe(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("DROP INDEX {schema}.outbox_claim_idx; DROP INDEX {schema}.jobs_done_idx")
	c.exec("GRANT SELECT ON {schema}.outbox TO PUBLIC")
	const fix = "CREATE INDEX CONCURRENTLY"

	asked := c.doctorWith(strings.NewReader("n\n"), "--fix").exits(4)
	asked.prints(fix, "Run this? [y/N]")
	if n := strings.Count(asked.stdout, "Run this?"); n != 2 || strings.Contains(asked.stdout, "fixed: ") {
		t.Errorf("asked %d times:\n%s", n, asked.stdout)
	}
	c.doctorWith(strings.NewReader("yes\nno\n"), "--fix").exits(4).prints("fixed: index", "1 critical, 1 warning")
	c.doctor("--fix", "--yes").exits(3).prints("fixed: index", "0 critical, 1 warning") // the warning is not fixable
	p := decode[printed](c.doctor("--fix", "--yes", "--json").exits(3))
	if len(p.Fixed) != 0 || len(p.Findings) != 1 {
		t.Errorf("printed %+v", p)
	}
}

func TestDoctorTellsWhatItCouldNotFix(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}"), DedupKey: "k"})
	c.exec("DROP INDEX {schema}.outbox_unique_idx")
	c.enqueue(outbox.Message{Topic: "b", Payload: []byte("{}")})
	c.exec("UPDATE {schema}.outbox SET topic = 'a', dedup_key = 'k'")
	p := decode[printed](c.doctor("--fix", "--yes", "--json").exits(4))
	if len(p.Fixed) != 1 || !strings.Contains(p.Fixed[0].Error, "could not create unique index") {
		t.Errorf("printed %+v", p)
	}
	if len(p.Findings) != 1 || p.Findings[0].Code != "invalid-index" {
		t.Errorf("findings %+v", p.Findings)
	}
}

func TestDoctorWatches(t *testing.T) {
	c := newMigratedCLI(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines := &firstLines{want: 2, stop: stop}
	a := &app{stdin: strings.NewReader(""), stdout: lines, stderr: lines, getenv: func(string) string { return "" }}
	if code := a.run(ctx, c.args(append(slices.Clone(patiently), "--watch", "--interval", "1s",
		"--json")...)); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, lines.text)
	}
	for line := range strings.Lines(lines.text) {
		var p printed
		must(t, json.Unmarshal([]byte(line), &p))
		if !p.Healthy {
			t.Errorf("printed %+v", p)
		}
	}
}

// A watch ends with the verdict of its last examination: one that failed is no all-clear, and neither is none at all.
func TestAWatchThatCouldNotLook(t *testing.T) {
	c := newMigratedCLI(t)
	role := strings.ToLower(c.db.Schema) + "_watcher"
	c.exec("CREATE ROLE " + role + " LOGIN IN ROLE pg_read_all_data, pg_read_all_stats")
	c.exec("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO " + role)
	t.Cleanup(func() {
		_, err := c.db.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		must(t, err)
	})
	address, err := url.Parse(c.url)
	must(t, err)
	address.User = url.User(role)
	watcher := *c
	watcher.url = address.String()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	said := &firstLines{want: 2, stop: func() { stop(errInterrupted) }}
	said.each = func(n int) {
		if n == 1 { // from now on nobody is let in
			c.exec("ALTER ROLE " + role + " NOLOGIN")
			c.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", role)
		}
	}
	a := &app{stdin: strings.NewReader(""), stdout: said, stderr: said, getenv: func(string) string { return "" }}
	code := a.run(ctx, watcher.args(append(slices.Clone(patiently), "--watch", "--interval", "1s", "--json")...))
	lines := strings.Split(said.text, "\n")
	var first, second printed
	must(t, json.Unmarshal([]byte(lines[0]), &first))
	must(t, json.Unmarshal([]byte(lines[1]), &second))
	if code != exitFailure || !first.Healthy || second.Healthy || second.Error == "" ||
		!strings.Contains(said.text, "the last examination failed") || strings.Contains(lines[2], "{") {
		t.Errorf("exit code %d:\n%s", code, said.text)
	}
}

func TestAWatchThatIsInterruptedBeforeItLooked(t *testing.T) {
	c := newMigratedCLI(t)
	said := &firstLines{want: 1, stop: func() {}}
	a := &app{stdin: strings.NewReader(""), stdout: said, stderr: said, begun: true, databaseURL: c.url,
		schema: c.db.Schema, unread: &pipe{Writer: said}}
	ctx, stop := context.WithCancelCause(t.Context())
	err := a.withAnySession(t.Context(), func(d *database) error {
		stop(errInterrupted)
		return a.watchDoctor(ctx, d, doctorOptions{Options: doctor.Options{Schema: c.db.Schema}, interval: time.Second})
	})
	if err == nil {
		t.Fatal("interrupted before the first examination, it says that nothing is wrong")
	}
	if code := a.report(ctx, newDoctorCommand(a), err); code != exitInterrupted ||
		!strings.Contains(said.text, "interrupted") {
		t.Errorf("exit code %d:\n%s", code, said.text)
	}
}

// firstLines calls stop once so many lines have been written.
type firstLines struct {
	text string
	want int
	stop func()
	each func(int) // is called with how many there are
}

func (f *firstLines) Write(b []byte) (int, error) {
	f.text += string(b)
	n := strings.Count(f.text, "\n")
	if f.each != nil {
		f.each(n)
	}
	if n >= f.want {
		f.stop()
	}
	return len(b), nil
}

func TestDoctorsFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--ignore bogus":    `"bogus", which is the code of no finding`,
		"--fail-on bogus":   "want warning, critical or never",
		"--watch --fix":     "--watch only looks",
		"--interval 1ms":    "at least 1s",
		"--yes":             "--yes goes with --fix",
		"--fix --json":      "--json cannot ask",
		"--timeout -1s":     "must not be negative",
		"--schema Bad":      "must match",
		"outbox":            "takes flags only",
		"--ignore schema x": "takes flags only",
	} {
		execute(t, t.Context(), strings.NewReader(""), nil, append([]string{"doctor"},
			strings.Fields(args)...)...).exits(exitUsage).says(want)
	}
}

// Control characters in a finding or a row do not reach the terminal unescaped.
func TestDoctorPrintsNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	printFinding(&b, doctor.Finding{Code: "x", Title: "a\x1b[2Jb",
		Evidence: []doctor.Evidence{{{Name: "key", Value: "\x1b]0;x"}, {Name: "age_seconds", Value: 90.0}}},
		Meaning:  "\x1b",
		Remedy:   doctor.Remedy{Do: "do", Commands: []string{"\x07"}}}, 60, false)
	printFinding(&b, doctor.Finding{Title: `key "k" is blocked: ` + "\x1b\xff"}, 0, false)
	contains(t, "the finding", b.String(), `key "k" is blocked: \x1b\xff  [`) // nothing else is escaped
	printSkipped(&b, []doctor.Skipped{{Check: "a", Table: "t", Reason: "\x1b"}}, 60)
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Errorf("printed %q", b.String())
	}
	if !strings.Contains(b.String(), "age_seconds="+rough(90*time.Second)) {
		t.Errorf("printed %q", b.String())
	}
}
