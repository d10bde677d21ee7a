//go:build linux

package demo_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

const patience = pgtest.Patience

// A parent is a demo in its own process, with its own directory for temporary files.
type parent struct {
	cmd    *exec.Cmd
	dir    string
	marker string // in the environment of the processes that it starts
	output *bufio.Reader
	seen   bytes.Buffer
}

func startParent(t *testing.T) *parent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &parent{cmd: exec.Command(self, asDemo), marker: "TXWORK_DEMO_TEST=" + rand.Text()}
	if p.dir, err = os.MkdirTemp("/tmp", "txwork-demo-test-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	if err := os.Chmod(p.dir, 0o777|os.ModeSticky); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), p.marker, "TMPDIR="+p.dir)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewReader(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("the demo said:\n%s", p.seen.String())
		}
	})
	return p
}

// await reads the output up to a line that contains text.
func (p *parent) await(t *testing.T, text string) {
	t.Helper()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	for {
		line, err := p.output.ReadString('\n')
		p.seen.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("the demo ended before it said %q", text)
		}
	}
}

func (p *parent) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code, -1 for a signal.
func (p *parent) wait(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_, _ = io.Copy(&p.seen, p.output)
	_ = p.cmd.Wait() // the state says how it ended
	return p.cmd.ProcessState.ExitCode()
}

// processes returns the live processes that the parent started and whose command lines contain the text.
func (p *parent) processes(text string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, file := range files {
		environment, _ := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if bytes.Contains(environment, []byte(p.marker)) && bytes.Contains(command, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// leavings lists what it has left behind, on disk and as processes.
func (p *parent) leavings() []string {
	left, _ := filepath.Glob(filepath.Join(p.dir, "*"))
	for _, pid := range p.processes("") {
		left = append(left, fmt.Sprintf("process %d", pid))
	}
	return left
}

func (p *parent) expectNothing(t *testing.T, limit time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		left := p.leavings()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v is left", left)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		moment string
		signal syscall.Signal
		code   int
	}{
		{"Ctrl-C while one is frozen", "frozen", syscall.SIGINT, 130},
		{"SIGKILL while one is frozen", "frozen", syscall.SIGKILL, -1},
		{"Ctrl-C at the start", "starting", syscall.SIGINT, 130},
		{"SIGTERM while all work", "worker processes", syscall.SIGTERM, 130},
	}[:pgtest.Size(2, 4)] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startParent(t)
			p.await(t, c.moment)
			p.signal(t, c.signal)
			if code := p.wait(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			limit := patience
			if c.signal != syscall.SIGKILL {
				limit = 0 // it has removed everything itself
			}
			p.expectNothing(t, limit)
		})
	}
}

func TestWorkerThatDiesUnasked(t *testing.T) {
	t.Parallel()
	p := startParent(t)
	p.await(t, "worker processes")
	workers := p.processes(asWorker)
	if len(workers) != 3 {
		t.Fatalf("%d workers, want 3", len(workers))
	}
	if err := syscall.Kill(workers[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := "ended though nobody asked it to (signal: killed)"; !strings.Contains(p.seen.String(), want) {
		t.Errorf("the demo did not say %q", want)
	}
	p.expectNothing(t, 0)
}
