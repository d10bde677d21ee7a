package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const (
	// killDelay is how long a command of relay --exec may take to end once it has been asked to. Then it is killed.
	killDelay = time.Second

	// stderrTail is how much of a failed command's standard error is recorded. The end usually says why it failed.
	stderrTail = 2 << 10
)

// What errors of commands begin with: an attempt that failed, and a message that is not tried again.
var (
	errAttempt   = errors.New("the command failed")
	errPermanent = errors.New("the command refused the message")
)

// A task is a row of any domain on its way to a command or a URL.
type task struct {
	id      string // the same on every attempt, and unique among all tasks
	topic   string // of a job: the kind
	key     string // empty if there is none
	attempt int
	headers map[string]string
	payload []byte
	also    []string // further environment variables of a command, as NAME=value
	rests   bool     // its topic rests while its receiver is unavailable
}

func messageTask(m *outbox.Delivery) task {
	return task{m.ID.String(), m.Topic, m.Key, m.Attempt, m.Headers, m.Payload, nil, true}
}

// A commander runs a command for each task.
type commander struct {
	workerfile.Exec
	children *children
	environ  []string           // what commands inherit
	stdout   io.Writer          // shared
	said     func(task, string) // receives the lines of their standard error
	logger   *slog.Logger
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
	said := newSaid(func(line string) { c.said(t, line) })
	own := slices.Concat(c.environ, c.Env)
	cmd.Dir = c.Directory
	cmd.Env = slices.Concat(own, env)
	cmd.Stdin = bytes.NewReader(t.payload)
	cmd.Stdout = c.stdout
	cmd.Stderr = said
	cmd.WaitDelay = c.KillAfter
	err = c.children.run(cmd)
	if lost := said.close(); lost > 0 {
		c.logger.Warn("command wrote more to standard error than is passed on", "topic", t.topic, "id", t.id,
			"attempt", t.attempt, "bytes_left_out", lost)
	}
	if errors.Is(err, syscall.E2BIG) {
		return tooLarge(append(own, c.Argv...), env, err)
	}
	return c.outcome(ctx, err, said)
}

// outcome interprets how a command ended. ErrWaitDelay means that it exited successfully but left a process behind that
// keeps its output open.
func (c *commander) outcome(ctx context.Context, err error, said *said) error {
	if err != nil && (!errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil) && !errors.As(err, new(*exec.ExitError)) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", errAttempt, err)
	}
	code, failure := 0, fmt.Errorf("exit status 0%s", said)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
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
	case verdict == httppost.Unavailable:
		return workqueue.Unavailable(failure)
	case code == workerfile.ExitTempFail:
		return fmt.Errorf("%w and wants to be tried again: %w", errAttempt, failure)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", errAttempt, context.Cause(ctx), failure)
	}
	return fmt.Errorf("%w: %w", errAttempt, failure)
}
