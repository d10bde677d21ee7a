// Package program is the common part of the project's chores: a command, its arguments, and its exit codes.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A Chore is a subcommand.
type Chore struct {
	Name  string
	Short string // what it does, in one line
	// Run runs the chore with the arguments, and tells whether it found something. It writes its result to out and its
	// progress to progress.
	Run func(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error)
}

// Exit codes.
const (
	exitFound       = 1
	exitFailure     = 2
	exitInterrupted = 130
)

// Main runs the chore that the command line names until it ends or is told to stop, and exits: with 1 if it found
// something, 2 if it could not be done, 130 if it was interrupted.
func Main(command string, chores ...Chore) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	os.Exit(run(ctx, command, chores, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, command string, chores []Chore, args []string, out, progress io.Writer) int {
	c, args, err := choose(chores, args)
	if err != nil {
		fmt.Fprintf(progress, "%s: %v\n\n", command, err)
		usage(progress, command, chores)
		return exitFailure
	}
	found, err := c.Run(ctx, args, out, progress)
	switch {
	case errors.Is(err, flag.ErrHelp): // the help has been printed
		return 0
	case err != nil && ctx.Err() != nil:
		fmt.Fprintf(progress, "%s %s: interrupted\n", command, c.Name)
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(progress, "%s %s: %v\n", command, c.Name, err)
		return exitFailure
	case found:
		return exitFound
	}
	return 0
}

func choose(chores []Chore, args []string) (*Chore, []string, error) {
	if len(args) == 0 {
		return nil, nil, errors.New("no command is given")
	}
	for i := range chores {
		if chores[i].Name == args[0] {
			return &chores[i], args[1:], nil
		}
	}
	return nil, nil, fmt.Errorf("there is no %q", args[0])
}

func usage(w io.Writer, command string, chores []Chore) {
	for _, c := range chores {
		if c.Short != "" {
			fmt.Fprintf(w, "%s %-10s %s\n", command, c.Name, c.Short)
		}
	}
}
