//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// postgresProcess is the command as a process of its own, in which a txwork is on the PATH.
func postgresProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"postgres"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "PATH="+commandIn(t)+":"+os.Getenv("PATH"))
	return cmd
}

func outcome(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code says enough
	return result{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// gone expects the server of the URL to have been removed.
func gone(t *testing.T, server string) {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(server))
	must(t, err)
	dir := u.Query().Get("host")
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory %q of the server is left behind: %v", dir, err)
	}
}

func TestPostgresRunsACommand(t *testing.T) {
	r := outcome(t, postgresProcess(t, "--", "sh", "-c",
		`test "$TXWORK_DATABASE_URL" = "$DATABASE_URL" && echo "$DATABASE_URL" && txwork migrate up >&2`)).ok()
	gone(t, r.stdout)
}

func TestPostgresExitsLikeItsCommand(t *testing.T) {
	r := outcome(t, postgresProcess(t, "sh", "-c", `cat; echo "$DATABASE_URL"; exit 42`)).exits(42)
	if r.stderr != "" {
		t.Errorf("it says %q in addition to the command", r.stderr)
	}
	gone(t, r.stdout)
}

func TestPostgresReportsTheSignalThatEndedItsCommand(t *testing.T) {
	outcome(t, postgresProcess(t, "--", "sh", "-c", "kill -KILL $$")).exits(128 + int(syscall.SIGKILL))
}

// The command decides what a signal does, however many arrive.
func TestPostgresPassesSignalsOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "signals")
	cmd := postgresProcess(t, "--", "sh", "-c", `trap 'echo term >> "$0"' TERM; trap 'echo int >> "$0"; exit 7' INT
		echo "$DATABASE_URL"; while :; do sleep 0.05; done`, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	server, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	signals := func() string {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(text)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the first signal has arrived", func() bool { return signals() == "term\n" })
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the second signal has arrived", func() bool { return signals() == "term\nterm\n" })
	must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 || signals() != "term\nterm\nint\n" {
		t.Errorf("exit code %d after %q", code, signals())
	}
	gone(t, server)
}

func TestPostgresServesUntilInterrupted(t *testing.T) {
	cmd := postgresProcess(t, "--json")
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	formed(t, "txwork postgres", line)
	var server privateServer
	must(t, json.Unmarshal([]byte(line), &server))
	conn, err := pgx.Connect(t.Context(), server.URL)
	must(t, err)
	must(t, conn.Close(context.Background()))
	must(t, cmd.Process.Signal(os.Interrupt))
	must(t, cmd.Wait())
	gone(t, server.URL)
}

func TestPostgresWrongUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--schema x":                      "omit --schema",
		"--database-url postgres:///x sh": "omit --database-url",
		"--json -- true":                  "without COMMAND only",
	} {
		execute(t, t.Context(), nil, nil, append([]string{"postgres"}, strings.Fields(line)...)...).
			exits(exitUsage).says(want)
	}
	execute(t, t.Context(), nil, nil, "postgres", "--", "no-such-command").exits(exitFailure).
		says(`"no-such-command": executable file not found`)
}
