// Command txwork runs and operates the queues of txwork: it migrates a schema, sends and relays outbox messages, sets
// timers and schedules, configures the queues of jobs, shows what is in the tables and repairs it. `txwork help` lists
// the commands.
package main

import (
	"context"
	"errors"
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
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
		<-signals
		a.children.kill()
		if restore := a.restore.Load(); restore != nil {
			(*restore)()
		}
		os.Exit(exitInterrupted)
	}()

	// With this signal caught, a write to a reader that went away returns an error. A relay has to see that error, so
	// that it returns the messages it holds to the queue. Ignoring the signal instead would be inherited by the
	// commands that relay runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return a.run(ctx, os.Args[1:])
}
