//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// runDemoProcess runs the demo in its own process, on the server of the tests. This test binary also runs its workers.
func runDemoProcess(t *testing.T, interruptAt string, args ...string) result {
	t.Helper()
	return runDemoHeard(t, map[string]func(*exec.Cmd, string){interruptAt: interrupt}, args...)
}

// interrupt sends Ctrl-C.
func interrupt(cmd *exec.Cmd, _ string) { _ = cmd.Process.Signal(os.Interrupt) }

// runDemoHeard is runDemoProcess, and reacts to words on standard error.
func runDemoHeard(t *testing.T, react map[string]func(cmd *exec.Cmd, text string), args ...string) result {
	t.Helper()
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", databaseURLEnv+"="+pgtest.URL(t))
	var stdout bytes.Buffer
	stderr := &listener{react: react, cmd: cmd}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	_ = cmd.Run() // the exit code says enough
	return result{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.text.String()}
}

// A listener is a standard error that calls a function when it sees a word for the first time.
type listener struct {
	text  bytes.Buffer // not embedded, because its ReadFrom would be used instead of Write
	react map[string]func(cmd *exec.Cmd, text string)
	cmd   *exec.Cmd
}

func (l *listener) Write(text []byte) (int, error) {
	for word, react := range l.react {
		if word != "" && bytes.Contains(text, []byte(word)) {
			delete(l.react, word)
			react(l.cmd, string(text))
		}
	}
	return l.text.Write(text)
}

func TestDemoEndsWithOneObject(t *testing.T) {
	r := runDemoProcess(t, "", "--transfers", "200", "--json").ok().says("frozen (SIGSTOP)", "killed (SIGKILL)",
		"continued (SIGCONT)")
	want := regexp.MustCompile(`^\{"enqueued":180,"applied":180,"lost":0,"applied_twice":0,"redelivered":[1-9]\d*,` +
		`"rolled_back_seen":0,"stale_settles_refused":[1-9]\d*,"seconds":[\d.]+,"balanced":true\}\n$`)
	if !want.MatchString(r.stdout) {
		t.Errorf("standard output is %q, want %v", r.stdout, want)
	}
	formed(t, "txwork demo", r.stdout)
}

func TestDemoOfAFileExplainsItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "transfers.csv")
	must(t, os.WriteFile(file, []byte("id,from,to,amount\n1,anna,bert,12.50\n2,bert,carl,0.01\n"), 0o600))
	runDemoProcess(t, "", "--input", file).ok().prints("2 transfers committed", "stale settles refused", "balance")
}

func TestDemoRefusesAFileBeforeAnythingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "transfers.csv")
	must(t, os.WriteFile(file, []byte("1,anna,bert,12.50\n2,bert,bert,0.01\n"), 0o600))
	r := runDemoProcess(t, "", "--input", file,
		"--json").exits(exitFailure).says(`transfers.csv:2: from and to are the same account "bert"`)
	if f := decode[failure](r); f.ExitCode != exitFailure || strings.Contains(r.stderr, "running") {
		t.Errorf("it went on: %s%s", r.stdout, r.stderr)
	}
}

func TestDemoInterrupted(t *testing.T) {
	r := runDemoProcess(t, "frozen", "--json").exits(exitInterrupted).says("txwork: interrupted")
	if f := decode[failure](r); f.ExitCode != exitInterrupted {
		t.Errorf("standard output is %q, want nothing but the exit code", r.stdout)
	}
}

// A demo with a dashboard begins when somebody opens it, and stays until it is interrupted.
func TestDemoOnADashboard(t *testing.T) {
	pages := make(chan string, 2)
	var url string
	get := func(path string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get(strings.TrimSuffix(url, "/") + path)
		if err != nil {
			pages <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		pages <- string(body) + fmt.Sprint(err)
	}
	r := runDemoHeard(t, map[string]func(*exec.Cmd, string){
		"the demo begins when": func(_ *exec.Cmd, text string) {
			url = servingAt.FindString(text)
			get("/t/outbox/ready")
		},
		"the dashboard stays": func(cmd *exec.Cmd, _ string) {
			get("/t/outbox/done")
			interrupt(cmd, "")
		},
	}, "--transfers", "200", "--json", "--web").ok().says("killed (SIGKILL)").prints(`"lost":0,"applied_twice":0`)
	before, after := <-pages, <-pages
	if !strings.Contains(before, "No row is due.") || !strings.Contains(after, `<td class="id">`) {
		t.Errorf("the dashboard shows before:\n%s\nand after:\n%s", before, after)
	}
	formed(t, "txwork demo", r.stdout)
}

func TestDemoInterruptedBeforeItsDashboardIsOpened(t *testing.T) {
	runDemoProcess(t, "the demo begins when", "--web=localhost:0").exits(exitInterrupted).says("txwork: interrupted")
}

func TestDemoWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--transfers 0":             "--transfers is 0, it must be between 1 and 10000000",
		"--transfers 9 --input x":   "[input transfers]",
		"--schema x":                "omit --schema",
		"--web=0.0.0.0:0":           "it must be one of this machine",
		"--web=nowhere":             "--web nowhere",
		"more":                      "takes flags only",
		"--transfers 1000000000000": "must be between",
	} {
		t.Run(args, func(t *testing.T) { runDemoProcess(t, "", strings.Fields(args)...).exits(exitUsage).says(want) })
	}
}
