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

	// Of doctor, by the worst of what it found.
	exitWarning  = 3
	exitCritical = 4

	// What shells report for a program that SIGINT ended: the command was not done.
	exitInterrupted = 130
)

// databaseURLEnv names the database where the flag does not.
const databaseURLEnv = "TXWORK_DATABASE_URL"

// An app is what the commands share: the process's surroundings and the flags of the root command. There
// is nothing global beside it, so tests run any number of them at once.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string

	databaseURL string // the flag
	schema      string
	begun       bool                   // a command's own code runs: what fails from here on is no usage error
	children    children               // the commands that are running
	restore     atomic.Pointer[func()] // gives the terminal back, once something has changed it
	answers     io.Writer              // where JSON objects go, where that is not standard output
	asJSON      bool                   // no progress is shown
	answered    bool                   // a JSON object was printed
	failed      any                    // what is printed as JSON in the place of a failure; nil for that
	unread      *pipe                  // standard output
	relays      bool                   // whoever reads the output takes messages over: that it has gone away is told
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
	code := a.report(ctx, cmd, err)
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

// report says why a command failed, in JSON too where that was asked for, and returns the exit code. Nobody wants to be
// told that they have read enough.
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

// A failure is what commands with --json print that have nothing else to print.
type failure struct {
	Error    string `json:"error"`     // what went wrong, as standard error says it
	ExitCode int    `json:"exit_code"` // of the process
}

// A pipe notes that nobody reads it any more.
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

// told is an error for people: what a signal broke off was interrupted, whatever the driver calls it.
func told(ctx context.Context, err error) string {
	if context.Cause(ctx) == errInterrupted && errors.Is(err, context.Canceled) {
		return strings.ReplaceAll(err.Error(), context.Canceled.Error(), errInterrupted.Error())
	}
	return err.Error()
}

// markBegun makes every command note that its own code has begun: whatever cobra refuses before is the
// command line's fault.
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

// logger is for what goes on in the background. Commands report what they did themselves.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// telemetry is for what the library does on a command's behalf.
func (a *app) telemetry() workqueue.Telemetry { return workqueue.Telemetry{Logger: a.logger()} }

// A usageError is about the command line: nothing was done.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
