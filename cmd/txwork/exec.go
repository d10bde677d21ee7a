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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/internal/workerfile"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const (
	// killDelay is how long a command of relay --exec may take to end once it has been asked to. Then it is killed.
	killDelay = time.Second

	// stderrTail is how much of a failed command's standard error is recorded. The end usually says why it failed.
	stderrTail = 2 << 10
)

// errAttempt marks a failed attempt.
var errAttempt = errors.New("the command failed")

// A task is a row of any domain on its way to a command or a URL.
type task struct {
	id      string // the same on every attempt, and unique among all tasks
	topic   string // of a job: the kind
	key     string // empty if there is none
	attempt int
	headers map[string]string
	payload []byte
	also    []string // further environment variables of a command, as NAME=value
}

func messageTask(m *outbox.Delivery) task {
	return task{m.ID.String(), m.Topic, m.Key, m.Attempt, m.Headers, m.Payload, nil}
}

// A commander runs a command for each task.
type commander struct {
	workerfile.Exec
	app            *app
	stdout, stderr io.Writer // shared
}

// shared makes a writer safe for commands that run at the same time. A file is safe already, and the commands write to
// it directly.
func shared(w io.Writer) io.Writer {
	if p, ok := w.(*pipe); ok {
		w = p.Writer
	}
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

// handle runs the command and settles the task by its exit code.
func (c *commander) handle(ctx context.Context, t task) error {
	env, err := environment(t)
	if err != nil {
		return workqueue.Permanent(fmt.Errorf("%w: %w", errPermanent, err))
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	said := &tail{limit: stderrTail}
	cmd.Dir = c.Directory
	cmd.Env = slices.Concat(os.Environ(), c.Env, env)
	cmd.Stdin = bytes.NewReader(t.payload)
	cmd.Stdout = c.stdout
	cmd.Stderr = io.MultiWriter(c.stderr, said)
	cmd.WaitDelay = c.KillAfter
	return c.outcome(ctx, c.app.children.run(ctx, cmd), said)
}

func environment(t task) ([]string, error) {
	headers := t.headers
	if headers == nil {
		headers = map[string]string{}
	}
	encoded, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	return append([]string{
		variable("TXWORK_ID", t.id),
		variable("TXWORK_TOPIC", t.topic),
		variable("TXWORK_KEY", t.key),
		variable("TXWORK_ATTEMPT", strconv.Itoa(t.attempt)),
		variable("TXWORK_HEADERS", string(encoded)),
	}, t.also...), nil
}

func variable(name, value string) string { return name + "=" + value }

// outcome interprets how a command ended. ErrWaitDelay means that it exited successfully but left a process behind that
// keeps its output open.
func (c *commander) outcome(ctx context.Context, err error, said *tail) error {
	if err != nil && (!errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil) && !errors.As(err, new(*exec.ExitError)) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", errAttempt, err)
	}
	code, failure := 0, fmt.Errorf("exit status 0%s", said)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code, failure = exit.ExitCode(), fmt.Errorf("%s%s", exit, said)
	}
	verdict := httppost.Retry // for a signal, which the command did not choose
	if code >= 0 {
		verdict = c.ExitCodes.Verdict(code)
	}
	switch {
	case verdict == httppost.Done:
		return nil
	case verdict == httppost.Permanent:
		return workqueue.Permanent(fmt.Errorf("%w: %w", errPermanent, failure))
	case code == workerfile.ExitTempFail:
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

// String returns the text after a colon, or an empty string if there is none.
func (t *tail) String() string {
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return ": " + text
}

// children are the commands that are running. The zero value is ready to use.
type children struct {
	mu      sync.Mutex
	running map[*os.Process]bool
	killed  bool
}

// run runs a command as its own process group, so that an interrupt from the terminal reaches this program and not the
// command. When ctx ends, which is the context of the command, the group is asked to end; it is killed if it does not
// end within the command's WaitDelay.
func (c *children) run(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
	cmd.Cancel = func() error { return terminateGroup(cmd.Process) }
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

// kill kills all running commands and prevents new ones from starting.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for process := range c.running {
		killGroup(process)
	}
}
