//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/spawn"
)

// ownerEnv makes the test binary a program that owns a server.
const ownerEnv = "LOCALPG_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" {
		ownServer()
		return
	}
	os.Exit(m.Run())
}

// ownServer starts a server, prints where it is, and returns without stopping the server when its stdin ends.
func ownServer() {
	s, err := localpg.Start(context.Background(), localpg.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(server{URL: s.URL(), Dir: s.Dir(), Supervisor: s.SupervisorPID()})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type server struct {
	URL, Dir   string
	Supervisor int
}

// child is a process that owns a server.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	server
}

func startChild(t *testing.T, binary string, attr *syscall.SysProcAttr) child {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), ownerEnv+"=1")
	cmd.Dir = filepath.Dir(binary)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	output := bufio.NewReader(stdout)
	c := child{cmd: cmd, stdin: stdin, stdout: output}
	line, err := output.ReadBytes('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := json.Unmarshal(line, &c.server); err != nil {
		t.Fatal(err)
	}
	return c
}

func self(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func TestServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(child) error{
		"exit":    func(c child) error { return c.stdin.Close() },
		"SIGKILL": func(c child) error { return c.cmd.Process.Kill() },
		"SIGTERM": func(c child) error { return c.cmd.Process.Signal(syscall.SIGTERM) },
		// Like a terminal, to every process of the foreground group.
		"Ctrl-C": func(c child) error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, self(t), &syscall.SysProcAttr{Setpgid: true})
			pid := postmaster(t, c.Dir)
			mustExec(t, c.URL, "SELECT 1")
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			_ = c.cmd.Wait() // it is known how it ended
			expectGone(t, pid, c.Dir)
		})
	}
}

// go test and shell pipelines wait for the last process that holds their output. The server must not be one, even if it
// takes long to stop.
func TestServerDoesNotHoldOutput(t *testing.T) {
	t.Parallel()
	c := startChild(t, self(t), nil)
	if err := syscall.Kill(c.Supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceValue(func() error { return syscall.Kill(c.Supervisor, syscall.SIGCONT) })
	t.Cleanup(func() { _ = resume() })
	output := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c.stdout)
		output <- err
	}()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-output:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the output is still open although the process that wrote to it has ended")
	}
	mustExec(t, c.URL, "SELECT 1") // the server ran all the time
	pid := postmaster(t, c.Dir)
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	expectGone(t, pid, c.Dir)
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("every test here runs as one")
	}
	dir, err := os.MkdirTemp("/tmp", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := copyTo(t, self(t), dir)
	const nobody = 65534
	c := startChild(t, binary, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	info, err := os.Stat(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
		t.Errorf("the directory belongs to user %d, want %d", uid, nobody)
	}
	pid := postmaster(t, c.Dir)
	mustExec(t, c.URL, "SELECT 1")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	expectGone(t, pid, c.Dir)
}

func copyTo(t *testing.T, file, dir string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, filepath.Base(file))
	if err := spawn.WriteExecutable(target, content); err != nil {
		t.Fatal(err)
	}
	return target
}
