package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2

	// Exit codes of doctor: by its most severe finding, and if it found nothing critical but did not make every check.
	exitWarning    = 3
	exitCritical   = 4
	exitIncomplete = 5

	// exitInterrupted is what shells report for a program that SIGINT ended: the command did not finish.
	exitInterrupted = 130
)

// databaseURLEnv names the environment variable that is used if the flag is not given.
const databaseURLEnv = "TXWORK_DATABASE_URL"

// An app is what the commands share: the surroundings of the process and the flags of the root command. There are no
// globals, so tests can run any number of apps at once.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string

	databaseURL string // the flag
	schema      string
	actor       string                 // who acts, for the audit
	begun       bool                   // the command's own code has started: later failures are not usage errors
	children    children               // the commands that are running
	restore     atomic.Pointer[func()] // restores the terminal; nil until something has changed its mode
	answers     io.Writer              // receives JSON objects; standard output if nil
	asJSON      bool                   // JSON was asked for, so no progress is shown
	answered    bool                   // a JSON object was printed
	failed      any                    // printed as the JSON object after a failure; nil for the default one
	unread      *pipe                  // standard output
	relays      bool                   // the output's reader takes over messages: report if it goes away
	goLog       func(*slog.Logger)     // makes Go's own logger write to another; nil in tests, where it is shared
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.unread = &pipe{Writer: a.stdout}
	a.stdout = a.unread
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ended := exitCode(0); errors.As(err, &ended) {
		return int(ended)
	}
	code := a.report(ctx, cmd, err)
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

// report says why a command failed, also in JSON if that was asked for, and returns the exit code. A reader of the
// output that has seen enough and closed the pipe is not reported as a failure.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	code := exitUsage
	if found := (foundError{}); errors.As(err, &found) {
		code = found.code
	} else if a.begun && !errors.As(err, new(usageError)) {
		code = exitFailure
		if context.Cause(ctx) == errInterrupted {
			code = exitInterrupted
		}
	}
	if !a.relays && a.unread.broken.Load() {
		return code
	}
	text := strings.TrimPrefix(told(ctx, err), "txwork: ")
	fmt.Fprintf(a.stderr, "txwork: %s\n", text)
	if wantsJSON(cmd) && !a.answered {
		if a.failed == nil {
			a.failed = failure{text, code}
		}
		a.printJSON(a.failed)
	}
	return code
}

func wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("json")
	return f != nil && f.Value.String() == "true"
}

// A failure is what a command with --json prints if it fails before it has anything else to print.
type failure struct {
	Error    string `json:"error"`     // what went wrong, as standard error says it
	ExitCode int    `json:"exit_code"` // of the process
}

// A pipe remembers that its reader has gone away.
type pipe struct {
	io.Writer
	broken atomic.Bool
}

func (p *pipe) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		p.broken.Store(true)
	}
	return n, err
}

// told words an error for people: whatever the driver calls it, work that a signal broke off was interrupted.
func told(ctx context.Context, err error) string {
	if context.Cause(ctx) == errInterrupted && errors.Is(err, context.Canceled) {
		return strings.ReplaceAll(err.Error(), context.Canceled.Error(), errInterrupted.Error())
	}
	return err.Error()
}

// markBegun makes every command record that its own code has begun. An error before that comes from cobra, so the
// command line is at fault.
func (a *app) markBegun(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.begun = true
			a.asJSON = wantsJSON(cmd)
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.markBegun(sub)
	}
}

// logger reports what goes on in the background. Commands report their own results themselves.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// telemetry is what the library uses when it works for a command.
func (a *app) telemetry() workqueue.Telemetry { return workqueue.Telemetry{Logger: a.logger()} }

// A usageError says that the command line is wrong and that nothing was done.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
