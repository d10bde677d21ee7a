// Package program is what the main functions of the project's chores have in common.
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

// Main runs a chore with the command line's arguments until it ends or is told to stop. The exit code is 1 where it
// found something, and 2 where it could not be done.
func Main(name string, run func(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) { // which has been printed
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	if found {
		os.Exit(1)
	}
}
