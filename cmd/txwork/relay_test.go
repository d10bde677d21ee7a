package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// generated returns NDJSON like commits, orders and logs: short and long lines, in many scripts, and some lines
// repeated.
func generated(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		switch {
		case i%50 == 7:
			lines[i] = `{"same":"line"}`
		case i%500 == 3:
			lines[i] = fmt.Sprintf(`{"long":%q,"i":%d}`, strings.Repeat("lang ", 20_000), i)
		default:
			lines[i] = fmt.Sprintf(`{"i":%d, "text":"Grüße 世界 🚀 \"%d\" \\ \u2028"}`, i, i)
		}
	}
	return lines
}

func TestRoundTripIsTheInputEachLineOnce(t *testing.T) {
	c := newMigratedCLI(t)
	lines := generated(5000)
	c.send(strings.Join(lines, "\n")+"\n", "--topic",
		"commits").ok().prints("sent 5000 messages to topic commits in 5 batches")

	r := c.run("outbox", "relay", "--stdout", "--until-empty").ok().says("txwork: delivered 5000 messages")
	got := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Fatalf("%d lines came back, %d went in, and they differ", len(got), len(lines))
	}
	again := c.run("outbox", "relay", "--stdout", "--until-empty").ok()
	if again.stdout != "" {
		t.Errorf("a second relay wrote %q", again.stdout)
	}
}

// A viewer's role sees messages but may not claim them: the relay refuses to start instead of waiting forever.
func TestRelayWithoutTheRightToClaim(t *testing.T) {
	c := newMigratedCLI(t)
	c.send("{}\n", "--topic", "t").ok()
	viewer := pgx.Identifier{c.db.Schema + "_viewer"}.Sanitize()
	for _, statement := range []string{"CREATE ROLE " + viewer, "GRANT USAGE ON SCHEMA " + c.db.Schema + " TO " +
		viewer, "GRANT SELECT ON outbox TO " + viewer} {
		_, err := c.db.Pool.Exec(t.Context(), statement)
		must(t, err)
	}
	t.Cleanup(func() {
		_, err := c.db.Pool.Exec(context.Background(), "DROP OWNED BY "+viewer+"; DROP ROLE "+viewer)
		must(t, err)
	})
	seen := c.in(t)
	seen.url += "&role=" + c.db.Schema + "_viewer"
	seen.run("outbox", "relay", "--stdout", "--until-empty").exits(exitFailure).says("may not claim from",
		"txwork roles")
}

// Row-level security keeps a tenant's relay from folding. It delivers what the tenant sees, says that there may be
// more, and ends.
func TestRelayOfATenant(t *testing.T) {
	c := newMigratedCLI(t)
	c.tenants()
	tenant := c.role(workerRights)
	c.enqueue(outbox.Message{Topic: c.db.Schema + "_t", Payload: []byte("mine")},
		outbox.Message{Topic: "another's", Payload: []byte("hidden")})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: os.Getenv}
	if code := a.run(ctx, tenant.args("outbox", "relay", "--stdout", "--until-empty")); code != 0 ||
		stdout.String() != "mine\n" || !strings.Contains(stderr.String(), "row-level security hides rows") {
		t.Errorf("exit code %d, delivered %q, said %q", code, &stdout, &stderr)
	}
}

func TestRelayToStdoutIsInOrderAndWhole(t *testing.T) {
	c := newMigratedCLI(t)
	lines := generated(1000)
	c.send(strings.Join(lines, "\n"), "--topic", "t").ok()
	r := c.run("outbox", "relay", "--stdout", "--until-empty").ok()
	if r.stdout != strings.Join(lines, "\n")+"\n" {
		t.Error("one relay with the default concurrency did not write exactly what was sent")
	}
	c.send(strings.Join(lines, "\n"), "--topic", "t").ok()
	r = c.run("outbox", "relay", "--stdout", "--until-empty", "--concurrency", "16").ok()
	got := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Error("with more concurrency lines are interleaved or lost")
	}
}

func TestSeveralRelaysShareTheWork(t *testing.T) {
	c := newMigratedCLI(t)
	lines := generated(2000)
	c.send(strings.Join(lines, "\n"), "--topic", "t").ok()
	outputs := make([]result, 3)
	var relays sync.WaitGroup
	for i := range outputs {
		relays.Go(func() { outputs[i] = c.run("outbox", "relay", "--stdout", "--until-empty") })
	}
	relays.Wait()
	var got []string
	for _, r := range outputs {
		got = append(got, strings.Fields(strings.ReplaceAll(r.ok().stdout, " ", "_"))...)
	}
	if len(got) != len(lines) {
		t.Errorf("three relays wrote %d lines of %d", len(got), len(lines))
	}
}

// If the pipe breaks, messages that were not written are not acknowledged, and lose no attempt.
func TestRelayToAReaderThatLeft(t *testing.T) {
	c := newMigratedCLI(t)
	c.send("1\n2\n3\n", "--topic", "t").ok()
	r, w, err := os.Pipe()
	must(t, err)
	r.Close()
	defer w.Close()
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: w, stderr: &stderr, getenv: os.Getenv}
	code := a.run(t.Context(), c.args("outbox", "relay", "--stdout"))
	if code != exitFailure || !strings.Contains(stderr.String(), "writing to standard output") {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 0 AND attempts = 0 AND due_at <= "+
		"now() + interval '1 second'"); n != 3 {
		t.Errorf("%d messages are unchanged, want 3", n)
	}
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestRelayAcknowledgesWhatWasWrittenBeforeAnError(t *testing.T) {
	c := newMigratedCLI(t)
	c.send("1\n2\n3\n4\n5\n", "--topic", "t").ok()
	a := &app{stdin: strings.NewReader(""), stdout: &fullDisk{left: 2}, stderr: io.Discard, getenv: os.Getenv}
	if code := a.run(t.Context(), c.args("outbox", "relay", "--stdout", "--until-empty")); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	done := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 2")
	ready := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 0 AND attempts = 0")
	if done != 2 || ready != 3 {
		t.Errorf("%d done and %d ready, want 2 and 3", done, ready)
	}
}

// A state is what a message looks like after its command exited.
type state struct {
	status   workqueue.Status
	attempts int
	lastErr  string
}

func (c *cli) state(id uuid.UUID) (s state) {
	c.t.Helper()
	must(c.t, c.db.Pool.QueryRow(c.t.Context(), "SELECT status, attempts, coalesce(last_error, '') FROM "+c.db.Schema+
		".outbox WHERE id = $1", id).
		Scan(&s.status, &s.attempts, &s.lastErr))
	return s
}

func TestRelayExecSettlesByExitCode(t *testing.T) {
	tests := []struct {
		name, command string
		status        workqueue.Status
		lastErr       []string
	}{
		{"done", "cat > /dev/null", workqueue.Done, nil},
		{"done without reading", "true", workqueue.Done, nil},
		{"try again", "echo busy >&2; exit 75", workqueue.Ready, []string{"wants to be tried again",
			"exit status 75: busy"}},
		{"bad data", "echo nonsense >&2; exit 65", workqueue.Failed, []string{"refused the message",
			"exit status 65: nonsense"}},
		{"other", "echo first; echo oh no >&2; exit 3", workqueue.Ready,
			[]string{"the command failed: exit status 3: oh no"}},
		{"not found", "no-such-command-here", workqueue.Ready, []string{"exit status 127", "not found"}},
		{"signal", "kill -9 $$", workqueue.Ready, []string{"signal: killed"}},
		{"much noise", "yes | head -c 100000 >&2; echo the end >&2; exit 1", workqueue.Ready,
			[]string{"y\ny\n", "the end"}},
		{"background process", "sleep 5 & exit 0", workqueue.Done, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newMigratedCLI(t)
			// The backoff is so long that it is not over before the relay has counted, even on a busy machine.
			id := c.enqueue(outbox.Message{Topic: "t", Payload: bytes.Repeat([]byte("payload "), 50_000),
				Retry: workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}})[0]
			r := c.run("outbox", "relay", "--exec", test.command, "--until-empty").ok()
			s := c.state(id)
			if s.status != test.status || s.attempts != 1 {
				t.Errorf("the message is %s after %d attempts, want %s\nstderr: %s", s.status, s.attempts, test.status,
					r.stderr)
			}
			contains(t, "last_error", s.lastErr, test.lastErr...)
			if len(s.lastErr) > stderrTail+200 {
				t.Errorf("last_error has %d bytes", len(s.lastErr))
			}
			switch test.status {
			case workqueue.Ready:
				r.says(fmt.Sprintf("to be repeated: %d, failed for good: 0", s.attempts),
					"1 scheduled for later, 0 failed")
			case workqueue.Failed:
				r.says("to be repeated: 0, failed for good: 1", "0 scheduled for later, 1 failed")
			default:
				r.says("delivered 1 message;")
			}
		})
	}
}

func TestRelayExecGetsPayloadAndMetadata(t *testing.T) {
	c := newMigratedCLI(t)
	payload := []byte("line\n\x00\xff binary, no newline")
	id := c.enqueue(outbox.Message{Topic: "orders", Key: "k'1", Payload: payload,
		Headers: map[string]string{"a": `b"c`}})[0]
	dir := t.TempDir()
	command := fmt.Sprintf(`cat > %[1]s/payload; env | grep ^TXWORK_ > %[1]s/env; echo said`, dir)
	c.run("outbox", "relay", "--exec", command, "--until-empty").ok().prints("said\n")
	got, err := os.ReadFile(filepath.Join(dir, "payload"))
	must(t, err)
	if !bytes.Equal(got, payload) {
		t.Errorf("standard input was %q, want %q", got, payload)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	must(t, err)
	contains(t, "environment", string(env), "TXWORK_ID="+id.String()+"\n", "TXWORK_TOPIC=orders\n", "TXWORK_KEY=k'1\n",
		"TXWORK_ATTEMPT=1\n", `TXWORK_HEADERS={"a":"b\"c"}`+"\n")
}

// Processes that a command leaves running are killed with it when its time is up.
func TestRelayExecKillsTheProcessGroup(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	pid := filepath.Join(t.TempDir(), "pid")
	stubborn := fmt.Sprintf(`(trap '' TERM; echo $$ > /dev/null; sh -c 'trap "" TERM; echo $$ > %s; while :; do sleep 0.1; done') & wait`, pid)
	c.run("outbox", "relay", "--exec", stubborn, "--timeout", "500ms", "--until-empty").ok()
	if s := c.state(id); s.status != workqueue.Ready || !strings.Contains(s.lastErr, "exceeded its timeout of 500ms") {
		t.Errorf("the message is %+v", s)
	}
	text, err := os.ReadFile(pid)
	must(t, err)
	eventually(t, "the grandchild is gone", func() bool { return processEnded(strings.TrimSpace(string(text))) })
}

// processEnded also counts a zombie as ended, because its new parent may not have waited for it yet.
func processEnded(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

const patience = pgtest.Patience

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !pgtest.Await(patience, done) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

func TestRelayStopsGracefully(t *testing.T) {
	c := newMigratedCLI(t)
	ids := c.enqueue(outbox.Message{Topic: "t"}, outbox.Message{Topic: "t"})
	ctx, cancel := context.WithCancelCause(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		pgtest.Await(patience, func() bool { return exists(started) || t.Context().Err() != nil })
		cancel(errInterrupted)
	}()
	command := fmt.Sprintf("touch %s; sleep 1", started)
	c.runWith(ctx, nil, "outbox", "relay", "--exec", command, "--concurrency", "1").ok().says("delivered 1 message;")
	first, second := c.state(ids[0]), c.state(ids[1])
	if first.status != workqueue.Done || second.status != workqueue.Ready || second.attempts != 0 {
		t.Errorf("the running message is %+v, the waiting one %+v", first, second)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestRelayOfOneTopicLeavesOthersAlone(t *testing.T) {
	c := newMigratedCLI(t)
	foreign := c.enqueue(outbox.Message{Topic: "b", Payload: []byte("b")})[0]
	c.enqueue(outbox.Message{Topic: "a", Payload: []byte("a1")}, outbox.Message{Topic: "a", Payload: []byte("a2")},
		outbox.Message{Topic: "a", ScheduledAt: time.Now().Add(time.Hour)}, outbox.Message{Topic: "b",
			ScheduledAt: time.Now().Add(time.Hour)})
	r := c.run("outbox", "relay", "--stdout", "--topic", "a", "--topic", "c", "--until-empty").ok()
	if r.stdout != "a1\na2\n" {
		t.Errorf("stdout is %q", r.stdout)
	}
	r.says("delivered 2 messages", "1 scheduled for later, 0 failed")
	if s := c.state(foreign); s.status != workqueue.Ready || s.attempts != 0 || s.lastErr != "" {
		t.Errorf("the message of another topic is %+v", s)
	}
}

// With --json, the relay's result is one object, separate from what it writes to standard output.
func TestRelayReportsInJSON(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("0")}, outbox.Message{Topic: "t", Payload: []byte("65")},
		outbox.Message{Topic: "t", ScheduledAt: time.Now().Add(time.Hour)})
	r := c.run("outbox", "relay", "--exec", `read code; exit "$code"`, "--until-empty", "--json").ok()
	lines := strings.SplitAfter(strings.TrimSuffix(r.stderr, "\n"), "\n") // the lines before it are the log
	got := decode[relayed](result{t: t, stdout: lines[len(lines)-1] + "\n"})
	want := relayed{Delivered: 1, Failed: 1, Remaining: &remaining{Scheduled: 1, Failed: 1}}
	if got.Remaining == nil || *got.Remaining != *want.Remaining || got.Delivered != 1 || got.Failed != 1 ||
		got.Retried != 0 {
		t.Errorf("reported %s, want %+v", r.stderr, want)
	}
}

// A relay has one listener. Everything else shares the connections of one runtime and the pool.
func TestRelayKeepsWithinItsConnections(t *testing.T) {
	c := newMigratedCLI(t)
	c.url += "&application_name=" + c.db.Schema + "&pool_max_conns=2"
	relay := c.startRelay("--concurrency", "50")
	const poolAndRuntime = 2 + 8 + 1 // 7 of the runtime, the listener, and an announcer
	for i := range 20 {
		payload := fmt.Sprint(i)
		c.enqueue(outbox.Message{Topic: "t", Payload: []byte(payload)})
		relay.reads(payload + "\n")
		if n := value[int](c,
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}'"); n > poolAndRuntime {
			t.Fatalf("there are %d sessions, want at most %d", n, poolAndRuntime)
		}
	}
	eventually(t, "one session listens", func() bool {
		return value[int](c, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}' AND query LIKE "+
			"'LISTEN%'") == 1
	})
	relay.stops()
}

// orphan writes a message that a relay has claimed before it died.
func (c *cli) orphan(payload string) uuid.UUID {
	c.t.Helper()
	id := c.enqueue(outbox.Message{Topic: "t", Payload: []byte(payload)})[0]
	_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(c.t, err)
	c.exec("UPDATE {schema}.outbox SET locked_until = now() - interval '1 hour' WHERE id = $1", id)
	return id
}

func TestRelayTakesOverFromTheDead(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.orphan("left")
	r := c.run("outbox", "relay", "--stdout", "--until-empty").ok()
	if r.stdout != "left\n" || c.state(id).attempts != 2 {
		t.Errorf("stdout is %q, the message %+v", r.stdout, c.state(id))
	}
}

func TestRelayUntilEmptyWaitsForOthers(t *testing.T) {
	c := newMigratedCLI(t)
	c.orphan("left")
	relay := c.startRelay("--until-empty", "--no-reaper")
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("new")})
	relay.reads("new\n")
	select {
	case <-relay.done:
		t.Error("the relay ended before the message in progress did")
	case <-time.After(500 * time.Millisecond):
	}
	relay.interrupt(errInterrupted)
	<-relay.done
	if relay.code != exitInterrupted {
		t.Errorf("exit code %d, want the one for an outbox that is not empty", relay.code)
	}
	contains(t, "stderr", relay.stderr.String(), "delivered 1 message\n", "interrupted")
}

func TestRelayDeliversWhatComesLater(t *testing.T) {
	c := newMigratedCLI(t)
	relay := c.startRelay()
	for i := range 3 {
		payload := fmt.Sprintf(`{"i":%d}`, i)
		c.enqueue(outbox.Message{Topic: "t", Payload: []byte(payload)})
		relay.reads(payload + "\n")
	}
	relay.stops()
}

// A runningRelay is a relay that writes to a pipe.
type runningRelay struct {
	t         *testing.T
	output    *os.File
	interrupt context.CancelCauseFunc
	code      int
	stderr    strings.Builder
	done      chan struct{}
}

func (c *cli) startRelay(args ...string) *runningRelay {
	c.t.Helper()
	r, w, err := os.Pipe()
	must(c.t, err)
	ctx, interrupt := context.WithCancelCause(c.t.Context())
	relay := &runningRelay{t: c.t, output: r, interrupt: interrupt, done: make(chan struct{})}
	go func() {
		defer close(relay.done)
		defer w.Close()
		a := &app{stdout: w, stderr: &relay.stderr, getenv: os.Getenv}
		relay.code = a.run(ctx, c.args(append([]string{"outbox", "relay", "--stdout"}, args...)...))
	}()
	c.t.Cleanup(func() { r.Close() })
	return relay
}

func (r *runningRelay) reads(want string) {
	r.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.output, got); err != nil || string(got) != want {
		r.t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

func (r *runningRelay) stops() {
	r.t.Helper()
	r.interrupt(errInterrupted)
	<-r.done
	if r.code != exitOK {
		r.t.Errorf("exit code %d", r.code)
	}
}

func TestRelayWithoutTables(t *testing.T) {
	c := newCLI(t)
	c.run("outbox", "relay", "--stdout").exits(exitFailure).says("does not exist: run `txwork migrate up --domain outbox --schema ")
}
