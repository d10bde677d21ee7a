// Command txwork runs and operates the queues of txwork: it migrates a schema, sends and relays outbox messages, sets
// timers and schedules, configures the queues of jobs, shows what is in the tables and repairs it. `txwork help` lists
// the commands.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the cause with which a command's context ends after a signal.
var errInterrupted = errors.New("interrupted")

func main() { os.Exit(realMain()) }

// realMain lets the command finish gracefully at the first signal, and exits immediately at the second.
func realMain() int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	a.children.all, a.goLog = true, redirectGoLog
	a.goLog(a.logger())
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go a.heed(cancel)

	// With this signal caught, a write to a reader that went away returns an error. A relay has to see that error, so
	// that it returns the messages it holds to the queue. Ignoring the signal instead would be inherited by the
	// commands that relay runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return a.run(ctx, os.Args[1:])
}

// redirectGoLog makes the lines of Go's own logger lines of ours. Package net/http, for example, reports there what a
// server sent without being asked.
func redirectGoLog(to *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(to)
}

// heed cancels the command at the first signal, and ends the process at the second. All commands that it runs end with
// the process, whatever signal ends it, except SIGKILL.
func (a *app) heed(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	// The terminal has gone away, which the shell reports once more, so that it is no second signal. nohup ignores it.
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	for range 2 {
		select {
		case <-hangup:
		case s := <-signals:
			if s == syscall.SIGQUIT { // prints what all goroutines do
				a.children.kill()
				dieOf(syscall.SIGQUIT)
			}
		}
		hangup = nil
		cancel(errInterrupted)
	}
	a.children.kill()
	if restore := a.restore.Load(); restore != nil {
		(*restore)()
	}
	os.Exit(exitInterrupted)
}
