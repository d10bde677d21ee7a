//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// logLines writes messages to a log, and returns their payloads as lines.
func (c *cli) logLines(topic string, payloads ...string) string {
	c.t.Helper()
	for _, p := range payloads {
		c.log("SELECT outbox_log_append('" + topic + "', '" + p + "')")
	}
	return strings.Join(payloads, "\n") + "\n"
}

func TestRelayOfASubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("outbox", "relay", "--stdout", "--subscription", "search").exits(exitFailure).
		says("does not exist: run `txwork migrate up --domain log --schema ")
	c.makeLog()
	c.run("outbox", "relay", "--stdout", "--until-empty", "--subscription", "search").exits(exitFailure).
		says("outbox_log has no subscription \"search\"", "subscribe first")
	c.run("subscriptions", "add", "search", "--topic", "s").ok()
	want := c.logLines("s", "1", "2", "3")
	for range 2 {
		c.run("subscriptions", "replay", "search", "--start", "beginning", "--yes").ok()
		r := c.run("outbox", "relay", "--stdout", "--until-empty", "--subscription", "search").ok().
			says("delivered 3 messages")
		if r.stdout != want {
			t.Errorf("the relay wrote %q, want %q", r.stdout, want)
		}
	}
	c.logLines("s", "65", "0")
	r := c.run("outbox", "relay", "--exec", `read code; exit "$code"`, "--until-empty", "--subscription", "search").ok()
	r.says("delivered 1 message; attempts to be repeated: 0, failed for good: 1",
		"0 scheduled for later, 1 failed (`txwork list outbox_log_parked --status failed --subscription search")
	c.run("subscriptions", "pause", "search").ok()
	c.logLines("s", "0")
	c.run("outbox", "relay", "--stdout", "--until-empty", "--subscription", "search").ok().says("delivered 0 messages")
	c.run("outbox", "relay", "--stdout", "--subscription", "search", "--topic", "s").exits(exitUsage).
		says("--topic is not possible with --subscription")
}

// A relay that waits for an empty subscription does not wait for one that was removed.
func TestRelayUntilARemovedSubscriptionIsEmpty(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search").ok()
	c.logLines("s", "1")
	remove := asCommand + "=1 " + postgres.Shell(os.Args[0])
	for _, arg := range c.args("subscriptions", "remove", "search", "--yes") {
		remove += " " + postgres.Shell(arg)
	}
	c.run("outbox", "relay", "--until-empty", "--subscription", "search", "--exec", remove).exits(exitFailure).
		says(`has no subscription "search"`)
}

// If the pipe breaks, messages of a log that were not written are given back.
func TestRelayOfASubscriptionToAReaderThatLeft(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search").ok()
	c.logLines("s", "1", "2")
	r, w, err := os.Pipe()
	must(t, err)
	r.Close()
	defer w.Close()
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: w, stderr: &stderr, getenv: os.Getenv}
	code := a.run(t.Context(), c.args("outbox", "relay", "--stdout", "--subscription", "search"))
	if code != exitFailure || !strings.Contains(stderr.String(), "writing to standard output") {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox_log_parked"); n != 0 {
		t.Errorf("%d messages were parked", n)
	}
	next := c.run("outbox", "relay", "--stdout", "--until-empty", "--subscription", "search").ok()
	if next.stdout != "1\n2\n" {
		t.Errorf("the next relay wrote %q", next.stdout)
	}
}

// runWorker runs a worker that is to refuse its file. One that does not is stopped after a while.
func (c *cli) runWorker(file string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), pgtest.Patience)
	defer cancel()
	return c.runWith(ctx, strings.NewReader(""), "worker", file)
}

// A worker makes the subscription that its file says is to be made. One that is otherwise is refused, and not changed.
func TestAWorkerMakesItsSubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.logLines("s", "1")
	text := func(made string) string {
		return "outbox: {subscriptions: {search: {topics: {s: {exec: ./deliver}}, make: " + made + "}}}"
	}
	const first = "{topics: [s, 'order.*'], start: beginning, lanes: 2, max_age: 3d}"
	w := c.newWorker(text(first), map[string]string{"deliver": keep("got")}).start()
	if got := w.file("got"); got != "1" {
		t.Errorf("the command got %q", got)
	}
	w.stop()
	c.run("subscriptions", "list", "--json").ok().
		prints(`"topics":["s","order.*"]`, `"max_age_seconds":259200`, `"lane":1`)
	for made, wrong := range map[string]string{
		"{topics: [t], lanes: 1}": "it has the topics s order.*, not t, as lanes 2, not 1",
		"{max_messages: 5}":       "as max_messages 0, not 5",
		"{max_age: 1h}":           "as max_age 72h0m0s, not 1h0m0s",
		"{headers: {a: b}}":       "the headers -, not a=b",
	} {
		file := filepath.Join(t.TempDir(), "worker.yaml")
		must(t, os.WriteFile(file, []byte(strings.Replace(text(made), "./deliver", "/bin/true", 1)), 0o600))
		c.runWorker(file).exits(exitFailure).
			says("subscription search exists", wrong, "txwork subscriptions change search")
	}
	same := c.newWorker(text("{topics: ['order.*', s], lanes: 2}"), map[string]string{"deliver": keep("again")}).start()
	c.logLines("s", "2")
	same.file("again")
	same.stop()
}

// Two workers that start at once make the subscription once, and both run.
func TestTwoWorkersMakeASubscriptionAtOnce(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.logLines("s", "1")
	tx, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT "+c.db.Schema+".outbox_log_subscribe('search', '{s}', start => '-infinity')")
	must(t, err)
	w := c.newWorker("outbox: {subscriptions: {search: {topics: {s: {exec: ./deliver}}, make: {topics: [s]}}}}",
		map[string]string{"deliver": keep("got")}).start()
	waits := func() bool { return pgtest.SomebodyWaits(t, c.db.Pool, c.db.Schema+".outbox_log_subscription") }
	if !pgtest.Await(pgtest.Patience, waits) {
		t.Fatalf("the worker does not wait for the other one: %s", w.logged())
	}
	must(t, tx.Commit(t.Context()))
	if got := w.file("got"); got != "1" {
		t.Errorf("the command got %q", got)
	}
	w.stop()
}

// A role that may not make a subscription is told which role may.
func TestAWorkerThatMayNotSubscribe(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	file := filepath.Join(t.TempDir(), "worker.yaml")
	must(t, os.WriteFile(file, []byte("outbox: {subscriptions: {search: {topics: {s: {exec: /bin/true}}, make: {}}}}"),
		0o600))
	c.role("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}").
		runWorker(file).exits(exitFailure).
		says("txwork: the role lacks a privilege: connect as the tables' owner, or grant it a role of txwork roles: " +
			"ERROR")
}

// A log of another version is refused before anything is read or written.
func TestALogOfAnotherVersionIsRefused(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.exec("COMMENT ON TABLE {schema}.outbox_log IS 'txwork outbox_log 2'")
	for _, args := range [][]string{
		{"outbox", "relay", "--stdout", "--subscription", "audit"}, {"subscriptions", "add", "search"},
		{"subscriptions", "list"}, {"reap", "outbox_log_parked"},
	} {
		c.run(args...).exits(exitFailure).says("outbox_log has version 2, which serves version 2 and later",
			"upgrade the library")
	}
}

// The section outbox of a worker file names the subscription.
func TestWorkerOfASubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search").ok()
	c.logLines("s", "1")
	c.logLines("fails", "2")
	w := c.newWorker("outbox: {subscriptions: {search: {topics: {s: {exec: ./keep}, fails: {exec: {command: 'exit 65'}}}}}}",
		map[string]string{"keep": keep("got")}).start()
	if got := w.file("got"); got != "1" {
		t.Errorf("the command got %q", got)
	}
	if env := w.file("got.env"); !strings.Contains(env, "TXWORK_SUBSCRIPTION=search\n") ||
		!strings.Contains(env, "TXWORK_TOPIC=s\n") {
		t.Errorf("the command had the environment %s", env)
	}
	eventually(t, "the message that fails is a dead letter", func() bool {
		return value[int](c, "SELECT count(*) FROM {schema}.outbox_log_parked WHERE status = $1", workqueue.Failed) == 1
	})
	w.stop()
	if !strings.Contains(w.logged(), ".outbox_log search × ") {
		t.Errorf("it does not say what it serves: %s", w.logged())
	}
	if lag := value[int](c, "SELECT messages FROM {schema}.outbox_log_lag() WHERE subscription = 'search'"); lag != 0 {
		t.Errorf("%d messages are not settled", lag)
	}
}

// The line about a destination that is away names the log and the subscription.
func TestWorkerOfASubscriptionWhoseDestinationIsAway(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search").ok()
	c.logLines("s", "1")
	w := c.newWorker("outbox: {subscriptions: {search: {topics: {s: {exec: {command: exit 69, exit_codes: "+
		"{69: unavailable}}}}}}}", nil).start()
	line := regexp.MustCompile(`destination is unavailable.*\.outbox_log\b.*search`)
	eventually(t, "its log says that the destination is away", func() bool { return line.MatchString(w.logged()) })
	w.stop()
}

func TestWorkerFilesOfSubscriptionsThatAreWrong(t *testing.T) {
	c := newMigratedCLI(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const topics = "topics: {t: {exec: 'true'}}"
	c.run("worker", "--check", file("none.yaml", "outbox: {subscriptions: {a: {}}}")).exits(exitUsage).
		says("outbox.subscriptions.a: has no topics")
	c.run("worker", "--check", file("both.yaml", "outbox: {subscriptions: {a: {"+topics+"}}, "+topics+"}")).
		exits(exitUsage).says("has subscriptions, so topics, concurrency, lease and runs_within are those of each")
	c.run("worker", "--check", file("retry.yaml", "outbox: {subscriptions: {a: {"+topics+"}}, retention: 1h}")).
		exits(exitUsage).says("retry.yaml:1:1: outbox: has subscriptions, so it cannot have retry")
	for made, wrong := range map[string]string{
		"{lanes: 65}": "lanes", "{lanes: 0}": "lanes", "{start: yesterday}": "start", "{max_age: 8d}": "max_age",
		"{max_messages: 0}": "max_messages", "{headers: [a]}": "headers", "{topics: s}": "topics",
		"{topics: []}": "topics", "{name: s}": "name",
	} {
		c.run("worker", "--check", file("make.yaml", "outbox: {subscriptions: {a: {make: "+made+", "+topics+"}}}")).
			exits(exitUsage).says(wrong)
	}
	right := file("right.yaml", "outbox: {subscriptions: {search: {"+topics+"}, billing: {"+topics+"}}}")
	c.run("worker", "--check", right).ok().prints("outbox, subscription billing (1 topic), outbox, subscription search", "outbox: 130 attempts")
	c.run("worker", right).exits(exitFailure).says("txwork migrate up --domain log")
}

// A worker reads several subscriptions. One that does not exist keeps the others from nothing.
func TestWorkerOfSeveralSubscriptions(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search").ok()
	c.run("subscriptions", "add", "billing").ok()
	c.logLines("s", "1")
	w := c.newWorker("outbox: {subscriptions: {search: {topics: {s: {exec: ./search}}}, missing: {topics: {s: "+
		"{exec: ./missing}}}, billing: {concurrency: 1, topics: {s: {exec: ./bill}}}}}",
		map[string]string{"search": keep("searched"), "bill": keep("billed"), "missing": keep("missed")}).start()
	for name, file := range map[string]string{"search": "searched", "billing": "billed"} {
		if got, env := w.file(file), w.file(file+".env"); got != "1" ||
			!strings.Contains(env, "TXWORK_SUBSCRIPTION="+name+"\n") {
			t.Errorf("the command of %s got %q with the environment %s", name, got, env)
		}
	}
	w.stop()
}

// A worker whose subscription does not exist, or not any more, does its other work.
func TestAWorkerWithoutItsSubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	w := c.newWorker("outbox: {subscriptions: {search: {topics: {s: {exec: ./deliver}}}}}\n"+
		"timers: {topics: {t: {exec: ./remind}}}", map[string]string{"deliver": keep("got"), "remind": keep("reminded")}).
		start()
	eventually(t, "its log says what it waits for", func() bool {
		return strings.Contains(w.logged(), `has no subscription \"search\": subscribe first`)
	})
	c.run("subscriptions", "add", "search").ok()
	c.logLines("s", "1")
	w.file("got")
	c.run("subscriptions", "remove", "search", "--yes").ok()
	eventually(t, "its log says that the subscription was removed", func() bool {
		return strings.Count(w.logged(), "the subscription does not exist") == 2
	})
	c.run("timers", "set", "a", "--topic", "t", "--in", "0s").ok()
	w.file("reminded")
	w.stop()
}
