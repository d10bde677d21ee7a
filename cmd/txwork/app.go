package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

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
	begun       bool     // a command's own code runs: what fails from here on is no usage error
	children    children // the commands that relay --exec is running
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(a.stderr, "txwork: %s\n", strings.TrimPrefix(told(ctx, err), "txwork: "))
	if found := (foundError{}); errors.As(err, &found) {
		return found.code
	}
	if a.begun && !errors.As(err, new(usageError)) {
		return exitFailure
	}
	fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitUsage
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
