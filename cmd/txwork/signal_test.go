//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/txwork/txwork/outbox"
)

// process starts the command as a process of its own.
func (c *cli) process(args ...string) *exec.Cmd {
	c.t.Helper()
	self, err := os.Executable()
	must(c.t, err)
	cmd := exec.CommandContext(c.t.Context(), self, c.args(args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// `txwork outbox relay --stdout | head -1` loses nothing: the signal of the broken pipe does not kill the relay while
// it holds claims.
func TestPipeThatBreaksInAProcess(t *testing.T) {
	c := newMigratedCLI(t)
	c.send(strings.Join(generated(500), "\n"), "--topic", "t").ok()
	cmd := c.process("outbox", "relay", "--stdout")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = bufio.NewReaderSize(out, 16).ReadString('\n')
	must(t, err)
	out.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit code %d, want 1; stderr: %s", code, &stderr)
	}
	contains(t, "stderr", stderr.String(), "broken pipe", "stay in the outbox")
	if n := value[int](c,
		"SELECT count(*) FROM {schema}.outbox WHERE status = 1 OR status = 0 AND attempts > 0"); n != 0 {
		t.Errorf("%d messages were not put back as they were", n)
	}
}

// `txwork list … | head -1` ends without an error message once its reader has gone away.
func TestReaderThatHasReadEnough(t *testing.T) {
	c := newMigratedCLI(t)
	c.send(strings.Join(generated(2000), "\n"), "--topic", "t").ok()
	cmd := c.process("list", "outbox", "--status", "ready", "--limit", "2000")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = bufio.NewReaderSize(out, 16).ReadString('\n')
	must(t, err)
	out.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
}

func TestFirstSignalStopsGracefully(t *testing.T) {
	c := newMigratedCLI(t)
	cmd, _ := c.startSlowRelay("sleep 0.3")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the relay ended with %v", err)
	}
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 2"); n != 1 {
		t.Errorf("%d messages were delivered, want the one that was running", n)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	c := newMigratedCLI(t)
	cmd, pid := c.startSlowRelay("exec sleep 60")
	must(t, cmd.Process.Signal(os.Interrupt))
	eventually(t, "a second signal ends it", func() bool {
		cmd.Process.Signal(os.Interrupt)
		return processEnded(fmt.Sprint(cmd.Process.Pid))
	})
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	eventually(t, "its command ends, too", func() bool { return processEnded(pid) })
}

// startSlowRelay returns once the relay's command runs, together with that command's process id.
func (c *cli) startSlowRelay(then string) (*exec.Cmd, string) {
	c.t.Helper()
	c.enqueue(outbox.Message{Topic: "t"})
	file := filepath.Join(c.t.TempDir(), "pid")
	cmd := c.process("outbox", "relay", "--exec", fmt.Sprintf("echo $$ > %[1]s.new; mv %[1]s.new %[1]s; %s", file,
		then))
	must(c.t, cmd.Start())
	eventually(c.t, "the command runs", func() bool { return exists(file) })
	pid, err := os.ReadFile(file)
	must(c.t, err)
	return cmd, strings.TrimSpace(string(pid))
}
