//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/inbox"
	documentation "github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/internal/spawn"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A runningWorker is `txwork worker` as a process, in its own directory.
type runningWorker struct {
	*cli
	dir string
	cmd *exec.Cmd

	mu   sync.Mutex
	logs strings.Builder
	read sync.WaitGroup
}

// newWorker writes the file and scripts, by name, into a directory.
func (c *cli) newWorker(file string, scripts map[string]string, env ...string) *runningWorker {
	c.t.Helper()
	w := &runningWorker{cli: c, dir: c.t.TempDir()}
	w.write("worker.yaml", file)
	for name, text := range scripts {
		w.write(name, "#!/bin/sh\n"+text+"\n")
	}
	w.cmd = c.process("worker", "worker.yaml")
	w.cmd.Dir = w.dir
	w.cmd.Env = append(w.cmd.Env, env...)
	return w
}

func (w *runningWorker) write(name, text string) {
	w.t.Helper()
	must(w.t, spawn.WriteExecutable(filepath.Join(w.dir, name), []byte(text)))
}

// check validates the file.
func (w *runningWorker) check() string {
	w.t.Helper()
	check := exec.CommandContext(w.t.Context(), w.cmd.Path, "worker", "--check", "worker.yaml")
	check.Dir, check.Env = w.dir, w.cmd.Env
	out, err := check.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (w *runningWorker) start() *runningWorker {
	w.t.Helper()
	stderr, err := w.cmd.StderrPipe()
	must(w.t, err)
	must(w.t, w.cmd.Start())
	w.read.Go(func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			w.mu.Lock()
			w.logs.WriteString(lines.Text() + "\n")
			w.mu.Unlock()
		}
	})
	return w
}

func (w *runningWorker) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.String()
}

// stop ends the worker with SIGTERM, as an orchestrator does.
func (w *runningWorker) stop() {
	w.t.Helper()
	must(w.t, w.cmd.Process.Signal(syscall.SIGTERM))
	w.ended()
}

func (w *runningWorker) ended() {
	w.t.Helper()
	w.read.Wait()
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("the worker ended with %v\n%s", err, w.logged())
	}
}

// file waits until a command has written a file, and returns its content.
func (w *runningWorker) file(name string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	defer func() {
		if w.t.Failed() {
			w.t.Log(w.logged())
		}
	}()
	eventually(w.t, name+" is written", func() bool { return exists(path) })
	text, err := os.ReadFile(path)
	must(w.t, err)
	return string(text)
}

// keep returns a script that saves its input and its environment in files. They are renamed when they are complete.
func keep(name string) string {
	return fmt.Sprintf(`cat > %[1]s.new; env | grep ^TXWORK_ > %[1]s.env.new; mv %[1]s.env.new %[1]s.env; mv %[1]s.new %[1]s`, name)
}

func (c *cli) settled(table string, status workqueue.Status) {
	c.t.Helper()
	eventually(c.t, "all rows of "+table+" are "+status.String(), func() bool {
		return value[bool](c, "SELECT bool_and(status = $1) FROM {schema}."+table, status)
	})
}

// work writes rows of each domain, as other programs would.
func (c *cli) work(sql string) {
	c.t.Helper()
	c.exec(strings.ReplaceAll(sql, "txwork.", c.db.Schema+"."))
	ctx := c.t.Context()
	c.enqueue(outbox.Message{Topic: "order.lost", Key: "k", Payload: []byte("lost")})
	box, err := inbox.Open(inbox.Options{Schema: c.db.Schema, DedupWindow: 30 * 24 * time.Hour})
	must(c.t, err)
	a := &app{databaseURL: c.url, schema: c.db.Schema}
	must(c.t, a.withDatabase(ctx, func(d *database) error {
		return d.Write(ctx, func(tx workqueue.Tx) error {
			_, err := box.Receive(ctx, tx, inbox.Message{Consumer: "warehouse", Source: "shop", MessageID: "m1",
				Topic: "order.paid", Payload: []byte("paid")})
			return err
		})
	}))
	c.run("timers", "set", "order/7", "--topic", "reminder", "--in", "0s", "--payload", `"now"`).ok()
}

// The file in docs/worker.md is valid, and handles rows of all domains.
func TestTheDocumentedWorkerFile(t *testing.T) {
	c := newMigratedCLI(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/worker.md"))
	must(t, err)
	var file, makes, sql string
	for _, b := range (documentation.Page{Text: string(text)}).Blocks() {
		switch b.Language {
		case "yaml":
			file, makes = cmp.Or(file, b.Text), b.Text
		case "sql":
			sql += b.Text
		}
	}
	if got, want := c.newWorker(makes, map[string]string{"index": "true"}).check(),
		"worker.yaml is valid: outbox, subscription search (1 topic)"; !strings.HasPrefix(got, want) {
		t.Errorf("--check says %q of the file that makes a subscription, want %q", got, want)
	}
	type post struct{ authorization, topic, body string }
	posts := make(chan post, 10)
	billing := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- post{r.Header.Get("Authorization"), r.Header.Get("Txwork-Topic"), string(body)}
	}))
	t.Cleanup(billing.Close)
	w := c.newWorker(strings.Replace(file, "127.0.0.1:8081", "127.0.0.1:0", 1), map[string]string{
		"archive": keep("archived"), "ship": keep("shipped"), "remind": keep("reminded"),
		"thumbnail": `echo "$@" > width; ` + keep("picture"),
	}, "BILLING_URL="+billing.URL, "BILLING_TOKEN=s3cret")
	if got, want := w.check(), "worker.yaml is valid: outbox (2 topics), inbox of warehouse (1 topic), timers (1 "+
		"topic), jobs (1 kind)\noutbox: 130 attempts, which last 24h to 30h\n"+
		"inbox: 130 attempts, which last 24h to 30h\ntimers: 15 attempts, which last 61m to 77m\n"+
		"jobs: 30 attempts, which last 4h to 5h\njobs thumbnail: 5 attempts, which last 32s to 40s\n"; got != want {
		t.Errorf("--check says %q, want %q", got, want)
	}

	c.work(sql)
	w.start()
	select {
	case got := <-posts:
		if want := (post{"Bearer s3cret", "order.placed", `{"id": 7}`}); got != want {
			t.Errorf("billing got %+v, want %+v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("billing got nothing\n%s", w.logged())
	}
	for name, want := range map[string]struct {
		payload string
		env     []string
	}{
		"archived": {"lost", []string{"TXWORK_DOMAIN=outbox\n", "TXWORK_TOPIC=order.lost\n", "TXWORK_KEY=k\n",
			"TXWORK_ATTEMPT=1\n", "TXWORK_MAX_ATTEMPTS=130\n"}},
		"shipped": {"paid", []string{"TXWORK_DOMAIN=inbox\n", "TXWORK_CONSUMER=warehouse\n", "TXWORK_SOURCE=shop\n",
			"TXWORK_MESSAGE_ID=m1\n", "TXWORK_KEY=m1\n"}},
		"reminded": {`"now"`, []string{"TXWORK_DOMAIN=timers\n", "TXWORK_TOPIC=reminder\n", "TXWORK_KEY=order/7\n",
			"TXWORK_SCHEDULED_AT=20", "TXWORK_SCHEDULE=\n"}},
		"picture": {`{"picture":"cat.png"}`, []string{"TXWORK_DOMAIN=jobs\n", "TXWORK_KIND=thumbnail\n",
			"TXWORK_TOPIC=thumbnail\n", "TXWORK_QUEUE=images\n"}},
	} {
		if got := strings.ReplaceAll(w.file(name), " ", ""); got != want.payload {
			t.Errorf("%s: the payload is %q, want %q", name, got, want.payload)
		}
		contains(t, name, w.file(name+".env"), want.env...)
	}
	if got := w.file("width"); got != "--width 200\n" {
		t.Errorf("the arguments are %q", got)
	}
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		c.settled(table, workqueue.Done)
	}
	probe := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(w.logged())
	response, err := http.Get(probe + "/readyz")
	must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the probe says %d", response.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	w.stop()
	contains(t, "the log", w.logged(), "maintenance=here",
		"msg=retries what=outbox attempts=130 last_at_least=24h1m38", "worker stopped", "done=5 retried=0 failed=0")
	if strings.Contains(w.logged(), "s3cret") {
		t.Errorf("the log contains a secret: %s", w.logged())
	}
}

// workUntil runs a worker in this process until a query about the outbox returns true.
func (c *cli) workUntil(file string, done string, args ...any) result {
	c.t.Helper()
	name := filepath.Join(c.t.TempDir(), "worker.yaml")
	must(c.t, os.WriteFile(name, []byte(file), 0o600))
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	ended := make(chan result, 1)
	go func() { ended <- c.runWith(ctx, nil, "worker", "--json", name) }()
	eventually(c.t, done, func() bool { return value[bool](c, done, args...) })
	stop()
	return <-ended
}

// The file determines what exit codes and statuses mean, the limits of attempts, and the backoffs.
func TestWorkerSettlesAsTheFileSays(t *testing.T) {
	status := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(strings.Trim(r.URL.Path, "/"), &n)
		w.WriteHeader(n)
	}))
	t.Cleanup(status.Close)
	c := newMigratedCLI(t)
	ids := map[string]uuid.UUID{}
	for topic := range wantedStates {
		ids[topic] = c.enqueue(outbox.Message{Topic: topic})[0]
	}
	r := c.workUntil(strings.ReplaceAll(`
outbox:
  retry: {growth: constant, base: 1h, cap: 1h, jitter: 0}
  topics:
    done: {exec: "exit 0"}
    data: {exec: "exit 65"}
    later: {exec: "exit 75"}
    other: {exec: "echo oh no >&2; exit 9"}
    mapped: {exec: {command: "exit 9", exit_codes: {9: done}}}
    all mapped: {exec: {command: "exit 9", exit_codes: {"*": permanent}}}
    zero is late: {exec: {command: "exit 0", exit_codes: {0: retry}}}
    signal: {exec: {command: "kill -9 $$", exit_codes: {"*": permanent}}}
    slow: {exec: {command: [sleep, "60"], timeout: 50ms}}
    once: {exec: "exit 9", max_attempts: 1}
    soon: {exec: "exit 9", retry: {growth: constant, base: 2h, cap: 2h, jitter: 0}}
    accepted: {http: URL/202}
    gone: {http: URL/404}
    busy: {http: URL/503}
    busy once: {http: URL/503, max_attempts: 1}
    not found is fine: {http: {url: URL/404, statuses: {404: done}}}
`, "URL", status.URL), "SELECT bool_and(status = 2 OR attempts > 0 AND status <> 1) FROM {schema}.outbox").ok()
	for topic, want := range wantedStates {
		s := c.state(ids[topic])
		if s.status != want.status || s.attempts != 1 || !strings.Contains(s.lastErr, want.lastErr) ||
			want.lastErr == "" && s.lastErr != "" {
			t.Errorf("%s: %+v, want %+v", topic, s, want)
		}
	}
	if left := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 0 AND topic <> 'soon' AND due_at "+
		"BETWEEN now() + interval '50 min' AND now() + interval '60 min'"); left != 6 {
		t.Errorf("%d messages have the section's backoff, want 6", left)
	}
	if left := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE topic = 'soon' AND due_at > now() + "+
		"interval '110 min'"); left != 1 {
		t.Error("the handler's own backoff is not used")
	}
	var last struct {
		Message               string `json:"msg"`
		Done, Retried, Failed int
	}
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if last.Message != "worker stopped" || last.Done != 4 || last.Retried != 7 || last.Failed != 5 {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
}

// An exit code can say that the destination is away, which costs no attempt.
func TestAnExitCodeThatMeansUnavailable(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	c.workUntil("outbox: {topics: {t: {exec: {command: exit 69, exit_codes: {69: unavailable}}}}}",
		"SELECT count(*) = 1 FROM {schema}.outbox "+
			"WHERE status = 0 AND attempts = 0 AND last_error LIKE '%exit status 69%'").ok()
}

// wantedStates are the expected states by topic.
var wantedStates = map[string]state{
	"done":              {status: workqueue.Done},
	"data":              {status: workqueue.Failed, lastErr: "exit status 65"},
	"later":             {status: workqueue.Ready, lastErr: "wants to be tried again: exit status 75"},
	"other":             {status: workqueue.Ready, lastErr: "exit status 9: oh no"},
	"mapped":            {status: workqueue.Done},
	"all mapped":        {status: workqueue.Failed, lastErr: "exit status 9"},
	"zero is late":      {status: workqueue.Ready, lastErr: "exit status 0"},
	"signal":            {status: workqueue.Ready, lastErr: "signal: killed"},
	"slow":              {status: workqueue.Ready, lastErr: "it took longer than 50ms"},
	"once":              {status: workqueue.Failed, lastErr: "exit status 9"},
	"soon":              {status: workqueue.Ready, lastErr: "exit status 9"},
	"accepted":          {status: workqueue.Done},
	"gone":              {status: workqueue.Failed, lastErr: "404 Not Found"},
	"busy":              {status: workqueue.Ready, lastErr: "503 Service Unavailable"},
	"busy once":         {status: workqueue.Failed, lastErr: "503 Service Unavailable"},
	"not found is fine": {status: workqueue.Done},
}

// A receiver that is away makes no dead letter where its topic rests, whatever the file says of attempts. Jobs and
// timers have no topic that rests: there it is an attempt like any other, in the handler's own way.
func TestWorkerBesideAReceiverThatIsAway(t *testing.T) {
	receiver := httptest.NewServer(http.NotFoundHandler())
	receiver.Close()
	c := newMigratedCLI(t)
	message := c.enqueue(outbox.Message{Topic: "away"})[0]
	c.greet(jobs.Insert{})
	c.exec("SELECT {schema}.timers_set('once', 'away', now(), 'x'::text), {schema}.timers_set('often', 'often', now(), " +
		"'x'::text), {schema}.inbox_receive('billing', 'shop', '1', 'x'::text, topic => 'away')")
	c.workUntil(strings.ReplaceAll(`
outbox: {topics: {away: {http: URL, max_attempts: 1}}}
inbox:
  dedup_window: 48h
  consumers: {billing: {topics: {"*": {http: URL, retry: {growth: constant, base: 2h, cap: 2h, jitter: 0}}}}}
timers:
  topics:
    away: {http: URL, max_attempts: 1}
    often: {http: URL, retry: {growth: constant, base: 2h, cap: 2h, jitter: 0}}
jobs: {kinds: {"*": {http: URL, max_attempts: 1}}}
`, "URL", receiver.URL), `SELECT (SELECT bool_and(rest >= '1 s') AND count(*) = 1 FROM {schema}.outbox_topic)
		AND (SELECT bool_and(rest >= '1 s') AND count(*) = 1 FROM {schema}.inbox_topic)
		AND (SELECT bool_and(status <> 1 AND attempts > 0) FROM {schema}.timers)
		AND (SELECT bool_and(status = 3) FROM {schema}.jobs)`).ok()
	if s := c.state(message); s.status != workqueue.Ready || s.attempts != 0 {
		t.Errorf("the message is %+v", s)
	}
	for query, want := range map[string]int{
		"inbox WHERE status = 0 AND attempts = 0":                                                        1,
		"timers WHERE key = 'once' AND status = 3 AND last_error LIKE '%cannot be reached%'":             1,
		"timers WHERE key = 'often' AND status = 0 AND attempts = 1 AND due_at > now() + interval '1 h'": 1,
		"jobs WHERE status = 3 AND attempts = 1 AND last_error LIKE '%cannot be reached%'":               1,
	} {
		if n := value[int](c, "SELECT count(*) FROM {schema}."+query); n != want {
			t.Errorf("%d of %s, want %d", n, query, want)
		}
	}
}

// A job of a kind that the file does not list is left to other workers or fails, as the file says.
func TestWorkerOfKindsThatItDoesNotHave(t *testing.T) {
	c := newMigratedCLI(t)
	c.greet(jobs.Insert{})
	c.workUntil("jobs: {unknown: leave, kinds: {other: {exec: cat}}}",
		"SELECT bool_and(status = 0 AND attempts = 0 AND due_at > now() + interval '1 s') FROM {schema}.jobs").ok()
	c.exec("UPDATE " + c.db.Schema + ".jobs SET due_at = now()")
	c.workUntil("jobs: {kinds: {other: {exec: cat}}}",
		"SELECT bool_and(status = 0 AND attempts = 1 AND last_error LIKE '%no handler%') FROM {schema}.jobs").ok()
	c.exec("UPDATE " + c.db.Schema + ".jobs SET due_at = now()")
	c.workUntil(`jobs: {kinds: {"*": {exec: cat > /dev/null}}}`, "SELECT bool_and(status = 2) FROM {schema}.jobs").ok()
}

// The rows of a dead worker are requeued by another worker's reaper, unless the file disables that.
func TestWorkerReaps(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.orphan("{}")
	c.workUntil("outbox: {topics: {'*': {exec: 'cat > /dev/null'}}}",
		"SELECT status = 2 FROM {schema}.outbox WHERE id = $1", id).ok()
}

// Maintenance that comes more often also leads for a shorter time: twice its pause.
func TestWorkerReapsAsOftenAsItsFileSays(t *testing.T) {
	c := newMigratedCLI(t)
	c.workUntil("reap_every: 2s\noutbox: {topics: {'*': {exec: 'cat > /dev/null'}}}",
		"SELECT count(*) > 0 AND bool_and(expires_at - granted_at <= interval '4 seconds') FROM {schema}.leader").ok()
}

// After a signal, a command gets the shutdown timeout, then SIGTERM and SIGKILL with all its processes, and its row is
// requeued.
func TestWorkerKillsWhatDoesNotEnd(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	// A quarter of the shutdown is left for the kill, also on a busy machine.
	w := c.newWorker("shutdown: 16s\noutbox: {topics: {t: {exec: {command: ./stubborn, kill_after: 300ms}}}}",
		map[string]string{
			"stubborn": `trap 'echo asked > asked' TERM; sh -c 'trap "" TERM; echo $$ > child.new; mv child.new child; while :; do sleep 0.1; done'; while :; do sleep 0.1; done`,
		}).start()
	child := strings.TrimSpace(w.file("child"))
	w.stop()
	if !processEnded(child) {
		t.Error("a child of the command still runs")
	}
	if s := c.state(id); s.status != workqueue.Ready || s.attempts != 0 {
		t.Errorf("the message is %+v, want it back with its attempt", s)
	}
}

// A command that ends within the shutdown timeout is settled as usual.
func TestWorkerWaitsForCommands(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	w := c.newWorker("outbox: {topics: {t: {exec: ./slow}}}",
		map[string]string{"slow": "echo > begun; until [ -e go ]; do sleep 0.02; done"}).start()
	w.file("begun")
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	w.write("go", "")
	w.ended()
	if s := c.state(id); s.status != workqueue.Done {
		t.Errorf("the message is %+v", s)
	}
}

func TestWorkerFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	wrong := file("wrong.yaml", "outbox:\n  topic: {}\n  concurrency: none\n")
	for _, args := range [][]string{{"worker", wrong}, {"worker", "--check", wrong}} {
		execute(t, t.Context(), nil, nil, args...).exits(exitUsage).says("wrong.yaml:1:1: outbox: has no topics",
			"wrong.yaml:2:3: outbox.topic: is unknown", "wrong.yaml:3:3: outbox.concurrency: is none")
	}
	r := execute(t, t.Context(), nil, nil, "worker", "--check", "--json", wrong).exits(exitUsage)
	var got checked
	must(t, json.Unmarshal([]byte(r.stdout), &got))
	if got.OK || got.File != wrong || len(got.Problems) != 3 || got.Problems[1] != (workerfile.Problem{
		Line: 2, Column: 3, Path: "outbox.topic",
		Message: "is unknown: want one of concurrency, failed_retention, lease, retention, retry, runs_within, " +
			"subscriptions, topics",
	}) {
		t.Errorf("--json prints %s", r.stdout)
	}
	right := file("right.yaml", "outbox: {topics: {t: {http: '${HOOK}'}}}")
	execute(t, t.Context(), nil, map[string]string{"HOOK": "http://127.0.0.1:1/"}, "worker", "--check", "--json",
		right).ok().
		prints(`"ok":true,"serves":["outbox (1 topic)"],"retries":[{"what":"outbox","attempts":130,"least_seconds":86498`,
			`"most_seconds":108123}],"problems":[]`)
	execute(t, t.Context(), nil, nil, "worker", "--check", right).exits(exitUsage).says("HOOK, which is not set")
	execute(t, t.Context(), nil, nil, "worker", filepath.Join(dir, "none.yaml")).exits(exitUsage).says("no such file")
	execute(t, t.Context(), nil, nil, "worker",
		file("big.yaml", strings.Repeat("#", maxWorkerFile+1))).exits(exitUsage).says("has more than")
	execute(t, t.Context(), nil, map[string]string{"HOOK": "http://h/"}, "worker",
		right).exits(exitUsage).says("no database")
}

// The file names the database if neither a flag nor the environment does.
func TestWorkerFileNamesTheDatabase(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	name := filepath.Join(t.TempDir(), "worker.yaml")
	must(t, os.WriteFile(name, []byte("database: {url: '${DB}', schema: "+c.db.Schema+"}\noutbox: {topics: {t: "+
		"{exec: 'true'}}}"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan result, 1)
	go func() { ended <- execute(t, ctx, nil, map[string]string{"DB": c.url}, "worker", name) }()
	eventually(t, "the message is delivered", func() bool { return c.state(id).status == workqueue.Done })
	stop()
	(<-ended).ok()
}

// While handlers finish after a signal, the worker is alive, and takes no more work.
func TestProbesAreAnsweredToTheEnd(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	w := c.newWorker("health: 127.0.0.1:0\noutbox: {topics: {t: {exec: ./slow}}}",
		map[string]string{"slow": "echo > begun; until [ -e go ]; do sleep 0.02; done"}).start()
	w.file("begun")
	probe := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(w.logged())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(path string) int {
		response, err := client.Get(probe + path)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := status("/readyz"); got != http.StatusOK {
		t.Errorf("before the signal it answers %d", got)
	}
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "it says that it stops", func() bool { return status("/readyz") != http.StatusOK })
	for range 20 {
		if ready, live := status("/readyz"), status("/livez"); ready != http.StatusServiceUnavailable ||
			live != http.StatusOK {
			t.Fatalf("while the command runs, the probes answer %d and %d", ready, live)
		}
	}
	w.write("go", "")
	w.ended()
}

// With --json, each line on standard error is JSON, also what Go's own packages say.
func TestNothingButJSONIsLogged(t *testing.T) {
	c := newMigratedCLI(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // two answers to each request
				defer conn.Close()
				requests := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(requests)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
					io.WriteString(conn, answer)
					io.WriteString(conn, answer)
				}
			}()
		}
	}()
	c.enqueue(outbox.Message{Topic: "t"})
	w := c.newWorker("outbox: {topics: {t: {http: 'http://"+listener.Addr().String()+"/'}}}", nil)
	w.cmd.Args = append(w.cmd.Args, "--json")
	w.start()
	c.settled("outbox", workqueue.Done)
	eventually(t, "it is logged what nobody asked for", func() bool {
		return strings.Contains(w.logged(), "Unsolicited response")
	})
	w.stop()
	for line := range strings.Lines(w.logged()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is %s", line)
		}
	}
}
