package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Exit codes of a command with a meaning of their own, as sysexits.h has them.
const (
	exitDataError = 65
	exitTempFail  = 75
)

const (
	// killDelay is how long a command that was asked to end may take before it is killed.
	killDelay = time.Second

	// stderrTail is how much of a failed command's standard error is recorded: its end says why.
	stderrTail = 2 << 10
)

// errAttempt marks a failed attempt.
var errAttempt = errors.New("the command failed")

// A commander runs a command for each message.
type commander struct {
	app            *app
	command        string
	stdout, stderr io.Writer
}

func newCommander(a *app, command string) *commander {
	return &commander{app: a, command: command, stdout: shared(a.stdout), stderr: shared(a.stderr)}
}

// shared makes a writer safe for commands that run at the same time. A file is, and the commands write to
// it by themselves.
func shared(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &lockedWriter{w: w}
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// handle runs the command and settles the message by its exit code.
func (c *commander) handle(ctx context.Context, m *outbox.Delivery) error {
	env, err := environment(m)
	if err != nil {
		return workqueue.Permanent(fmt.Errorf("%w: %w", errPermanent, err))
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", c.command)
	said := &tail{limit: stderrTail}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(m.Payload)
	cmd.Stdout = c.stdout
	cmd.Stderr = io.MultiWriter(c.stderr, said)
	return outcome(ctx, c.app.children.run(ctx, cmd), said)
}

func environment(m *outbox.Delivery) ([]string, error) {
	headers := m.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	encoded, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	return []string{
		"TXWORK_ID=" + m.ID.String(),
		"TXWORK_TOPIC=" + m.Topic,
		"TXWORK_KEY=" + m.Key,
		"TXWORK_ATTEMPT=" + strconv.Itoa(m.Attempt),
		"TXWORK_HEADERS=" + string(encoded),
	}, nil
}

// outcome reads a command's end. ErrWaitDelay is one that exited well and left a process behind which
// keeps its output open.
func outcome(ctx context.Context, err error, said *tail) error {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", errAttempt, err)
	}
	failure := fmt.Errorf("%s%s", exit, said)
	switch {
	case exit.ExitCode() == exitDataError:
		return workqueue.Permanent(fmt.Errorf("%w: %w", errPermanent, failure))
	case exit.ExitCode() == exitTempFail:
		return fmt.Errorf("%w and wants to be tried again: %w", errAttempt, failure)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", errAttempt, context.Cause(ctx), failure)
	}
	return fmt.Errorf("%w: %w", errAttempt, failure)
}

// A tail keeps the end of what is written to it.
type tail struct {
	limit int
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - t.limit; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// String is the text after a colon, or nothing.
func (t *tail) String() string {
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return ": " + text
}

// children are the commands that are running. The zero value is ready.
type children struct {
	mu      sync.Mutex
	running map[*os.Process]bool
	killed  bool
}

// run runs a command as a process group of its own, so that an interrupt from the terminal is for the
// relay to handle. When ctx ends, which is the command's own, the group is asked to end, and killed if it
// does not.
func (c *children) run(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
	cmd.Cancel = func() error { return terminateGroup(cmd.Process) }
	cmd.WaitDelay = killDelay
	if err := c.start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	c.mu.Lock()
	delete(c.running, cmd.Process)
	c.mu.Unlock()
	if ctx.Err() != nil {
		killGroup(cmd.Process)
	}
	return err
}

func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errInterrupted
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.running == nil {
		c.running = map[*os.Process]bool{}
	}
	c.running[cmd.Process] = true
	return nil
}

// kill ends all commands at once and lets none start.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for process := range c.running {
		killGroup(process)
	}
}
