//go:build unix

package main

import (
	"bytes"
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
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", databaseURLEnv+"="+pgtest.URL(t))
	var stdout bytes.Buffer
	stderr := &interrupter{at: interruptAt, cmd: cmd}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	_ = cmd.Run() // the exit code says enough
	return result{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.text.String()}
}

// An interrupter is a standard error that sends Ctrl-C to the command when it sees a word.
type interrupter struct {
	text bytes.Buffer // not embedded, because its ReadFrom would be used instead of Write
	at   string
	cmd  *exec.Cmd
}

func (i *interrupter) Write(text []byte) (int, error) {
	if i.at != "" && bytes.Contains(text, []byte(i.at)) {
		i.at = ""
		_ = i.cmd.Process.Signal(os.Interrupt)
	}
	return i.text.Write(text)
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

func TestDemoWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--transfers 0":             "--transfers is 0, it must be between 1 and 10000000",
		"--transfers 9 --input x":   "[input transfers]",
		"--schema x":                "omit --schema",
		"more":                      `unknown command "more"`,
		"--transfers 1000000000000": "must be between",
	} {
		t.Run(args, func(t *testing.T) { runDemoProcess(t, "", strings.Fields(args)...).exits(exitUsage).says(want) })
	}
}
