// Command txwork runs and looks after the queues of txwork: it migrates a schema, sends and relays outbox
// messages, sets timers and schedules, rules the queues of jobs, shows what is in the tables and repairs it.
// `txwork help` lists the commands.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is why a command's context ends at a signal.
var errInterrupted = errors.New("interrupted")

func main() { os.Exit(realMain()) }

// realMain ends the command gracefully at the first signal and at once at the second.
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

	// A reader that went away is then an error of the write, which a relay has to see: the messages that
	// it holds go back. Ignoring the signal instead would be inherited by the commands that relay runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return a.run(ctx, os.Args[1:])
}
