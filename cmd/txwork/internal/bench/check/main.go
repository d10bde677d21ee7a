// Command check compares the working tree with an earlier commit: it builds txwork from both, runs a subset of `txwork
// bench` with each in the order A B B A, and prints medians, spreads and ratios. `make bench-check` runs it.
//
// It does not judge times: people do that. It exits with 1 only if a run lost jobs, a run of the working tree failed,
// or something cannot be built; and with 130 if it was interrupted, after it has printed what was measured until then.
package main

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

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	os.Exit(realMain(ctx, ".", os.Args[1:], os.Stdout, os.Stderr))
}

// options are what the command line says.
type options struct {
	base   string
	rounds int
	short  bool
	json   bool
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.base, "base", "",
		"commit to compare with (default: the merge base with main, or HEAD~1 on main)")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of A B B A (default 3, with --short 1)")
	flags.BoolVar(&o.short, "short", false, "about a minute, for a log: small sizes")
	flags.BoolVar(&o.json, "json", false, "print one JSON object on one line in the place of the table")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.rounds == 0 {
		o.rounds = 3
		if o.short {
			o.rounds = 1
		}
	}
	if o.rounds < 0 || flags.NArg() > 0 {
		err = errors.New("want no arguments, and at least one round")
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func realMain(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	err = check(ctx, dir, o, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench-check: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "bench-check:", err)
		return exitFailed
	}
	return 0
}

// check builds, measures and reports, even if it was interrupted or a run failed.
func check(ctx context.Context, dir string, o options, stdout, stderr io.Writer) (err error) {
	b, err := build(ctx, dir, o.base, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove()) }()
	m := &measurement{sides: b.sides, cells: cellsOf(o.short), rounds: o.rounds, progress: stderr}
	failed := m.run(ctx)
	return errors.Join(failed, m.report().write(stdout, o.json))
}
