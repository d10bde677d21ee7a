package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// stays is a shell command that writes its process id into the file pid and does not end. It ignores SIGTERM.
const stays = `sh -c 'trap "" TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.1; done'`

// When a command ends, or is ended, so do all processes that it has started, whatever they did to get away.
func TestNoProcessOutlivesItsCommand(t *testing.T) {
	const (
		alone = stays + " >/dev/null 2>&1"
		await = "until [ -e pid ]; do sleep 0.01; done"
	)
	for name, test := range map[string]struct {
		command string
		status  workqueue.Status
	}{
		"in the background":        {stays + " & " + await, workqueue.Done},
		"without output":           {alone + " & " + await, workqueue.Done},
		"in a session, waited for": {"setsid " + stays + " & wait", workqueue.Ready},
		"in a session, left":       {"setsid " + alone + " & " + await, workqueue.Done},
		"an orphan in a session":   {"(setsid " + alone + " &); " + await + "; sleep 60", workqueue.Ready},
		"a child of an orphan":     {"(setsid sh -c '. ./stays; true' >/dev/null 2>&1 &); " + await, workqueue.Done},
		"with another environment": {`(setsid env -i PATH="$PATH" ` + alone + " &); " + await, workqueue.Done},
	} {
		t.Run(name, func(t *testing.T) {
			c := newMigratedCLI(t)
			id := c.enqueue(outbox.Message{Topic: "t"})[0]
			w := c.newWorker("outbox: {retry: {base: 1h, cap: 1h}, topics: {t: {exec: {command: [./command], "+
				"timeout: 2s, kill_after: 100ms}}}}",
				map[string]string{"command": test.command, "stays": stays}).start()
			pid := strings.TrimSpace(w.file("pid"))
			t.Cleanup(func() { endProcess(t, pid) })
			eventually(t, "the attempt ends", func() bool {
				s := c.state(id)
				return s.attempts == 1 && s.status == test.status
			})
			eventually(t, "nothing is left of its process", func() bool { return !exists("/proc/" + pid) })
			w.stop()
		})
	}
}

// endProcess ends a process that a failed test has left.
func endProcess(t *testing.T, pid string) {
	if n, err := strconv.Atoi(pid); err == nil && t.Failed() {
		syscall.Kill(n, syscall.SIGKILL)
	}
}

// When a terminal goes away, its programs get SIGHUP: the worker stops as at SIGTERM, however often it is told. If the
// tests run under nohup, the worker does not inherit that.
func TestHangup(t *testing.T) {
	c := newMigratedCLI(t)
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(handled) })
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	// A quarter of the shutdown is left for the kill, also on a busy machine.
	w := c.newWorker("shutdown: 16s\noutbox: {topics: {t: {exec: {command: ./slow, kill_after: 100ms}}}}",
		map[string]string{"slow": stays}).start()
	pid := strings.TrimSpace(w.file("pid"))
	must(t, w.cmd.Process.Signal(syscall.SIGHUP))
	eventually(t, "it stops", func() bool {
		w.cmd.Process.Signal(syscall.SIGHUP)
		return processEnded(fmt.Sprint(w.cmd.Process.Pid))
	})
	w.ended()
	if !processEnded(pid) {
		t.Error("the command still runs")
	}
	if s := c.state(id); s.status != workqueue.Ready || s.attempts != 0 {
		t.Errorf("the message is %+v, want it back with its attempt", s)
	}
}

// nohup lets a program ignore SIGHUP.
func TestHangupThatIsIgnored(t *testing.T) {
	c := newMigratedCLI(t)
	w := c.newWorker("outbox: {topics: {t: {exec: ./done}}}",
		map[string]string{"done": "cat > done.new; mv done.new $(cat done.new)"})
	w.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, w.cmd.Path}, w.cmd.Args[1:]...)
	w.cmd.Path = "/bin/sh"
	w.start()
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("first")})
	w.file("first")
	must(t, w.cmd.Process.Signal(syscall.SIGHUP))
	c.enqueue(outbox.Message{Topic: "t", Payload: []byte("second")})
	w.file("second")
	w.stop()
}

// A program that SIGQUIT ends tells what it was doing; its commands end with it.
func TestQuit(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	w := c.newWorker("outbox: {topics: {t: {exec: ./slow}}}",
		map[string]string{"slow": "setsid " + stays}).start()
	pid := strings.TrimSpace(w.file("pid"))
	must(t, w.cmd.Process.Signal(syscall.SIGQUIT))
	w.read.Wait()
	w.cmd.Wait()
	contains(t, "what it says", w.logged(), "SIGQUIT: quit", "goroutine ")
	if !processEnded(pid) {
		t.Error("the command still runs")
	}
}

// Whoever has the password of the database can do more than a handler is trusted with.
func TestCommandsDoNotGetThePassword(t *testing.T) {
	c := newMigratedCLI(t)
	c.url += "&password=s3cr%40t"
	secrets := []string{"TXWORK_DATABASE_URL=" + c.url, "PGPASSWORD=s3cr@t", "OTHER_URL=postgres://u:s3cr%40t@h/db",
		"SETTINGS=host=h password=s3cr@t", "MINE=" + c.url}
	want := []string{"KEPT=1\n", "NOTHING_ELSE=postgres://u:other@h/db\n", "GIVEN=s3cr@t\n"}
	c.enqueue(outbox.Message{Topic: "t"})
	w := c.newWorker("database: {url: '${MINE}'}\noutbox: {topics: {t: {exec: {command: 'env > env.new; mv env.new "+
		"env', env: {GIVEN: '${PGPASSWORD}'}}}}}", nil,
		append(secrets, "KEPT=1", "NOTHING_ELSE=postgres://u:other@h/db")...)
	w.cmd.Args = []string{w.cmd.Args[0], "worker", "worker.yaml", "--schema", c.db.Schema}
	w.cmd.Env = append(w.cmd.Env, "TXWORK_DATABASE_URL=")
	w.start()
	contains(t, "the environment", w.file("env"), want...)
	hides(t, strings.ReplaceAll(w.file("env"), "GIVEN=s3cr@t\n", ""))
	w.stop()

	c.enqueue(outbox.Message{Topic: "t"})
	dir := t.TempDir()
	relay := c.process("outbox", "relay", "--exec", "env > env", "--until-empty")
	relay.Dir, relay.Env = dir, append(relay.Env, append(secrets, want[0][:6])...)
	if out, err := relay.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	must(t, err)
	contains(t, "the environment", string(env), want[0])
	hides(t, string(env))
}

func hides(t *testing.T, env string) {
	t.Helper()
	for line := range strings.Lines(env) {
		if strings.Contains(line, "s3cr") {
			t.Errorf("commands get %s", line)
		}
	}
}
