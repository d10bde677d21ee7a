// Package mutation checks that the tests notice when a guard is gone. It removes each guard of the SQL and of the Go
// code in turn, builds the tests with that one change (no file of the repository is touched) and runs the tests that
// are most likely to notice first. A mutant that survives is a guard that a later change may lose unnoticed.
//
//	go run ./proof mutants                 # all mutants; exit 1 with survivors
//	go run ./proof mutants --list          # what there is, and what was left out and why
//	go run ./proof mutants --only claim    # those whose name contains the word; may be given several times
//	go run ./proof mutants --json          # one object a mutant on standard output
//	go run ./proof mutants --resume FILE   # keeps the results there, and goes on with what is missing
//
// First, every test that a mutant may meet is run without a mutant, since a test that fails anyway kills nothing. A
// killer is repeated alone, and is reported separately if it passes then. A test that does not end has noticed the
// mutant too, and is also reported separately.
//
// Guards of the SQL are found in the files themselves (see guards.go), so that a new one cannot be forgotten. Guards of
// the Go code, and guards of the SQL that are not conditions, are listed in tables (edits_*.go).
package mutation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

type options struct {
	list, json bool
	only       []string
	resume     string
	parallel   int
	limit      time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.BoolVar(&o.list, "list", false, "print the mutants and the equivalent ones, run nothing")
	flags.BoolVar(&o.json, "json", false, "print one JSON object a mutant")
	flags.Func("only", "run the mutants whose name contains this (several are one or the other)",
		func(word string) error {
			o.only = append(o.only, word)
			return nil
		})
	flags.StringVar(&o.resume, "resume", "", "keep the results in this file; mutants that it knows to be killed are "+
		"not tried again")
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "mutants at once, each with a server of its own")
	flags.DurationVar(&o.limit, "limit", 0, "time for one run of tests (default: ten times what it takes without a "+
		"mutant, at least two minutes)")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && o.parallel < 1 {
		err = fmt.Errorf("--parallel is %d, at least 1 is needed", o.parallel)
	}
	return o, err
}

// Run tests the mutants that the arguments select, and tells whether one survived.
func Run(ctx context.Context, args []string, out, progress io.Writer) (survived bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return false, err
	}
	mutants, left, err := collect(root)
	if err != nil {
		return false, err
	}
	mutants = named(mutants, o.only)
	if len(mutants) == 0 {
		return false, fmt.Errorf("no mutant has one of %q in its name", o.only)
	}
	if o.list {
		printList(out, mutants, left)
		return false, nil
	}
	results, took, err := try(ctx, root, o, mutants, progress)
	if err != nil {
		return false, err
	}
	return count(results).survived > 0, report(out, results, len(left), took, o.json)
}

func try(ctx context.Context, root string, o options, mutants []mutant, progress io.Writer) (results []result,
	took time.Duration, err error) {
	j, err := openJournal(o.resume)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	start := time.Now()
	results, err = newCheck(root, o, mutants, j, progress).run(ctx)
	return results, time.Since(start), err
}

// named returns the mutants whose names contain one of the words, or all mutants if there are no words.
func named(mutants []mutant, words []string) (chosen []mutant) {
	for _, m := range mutants {
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(m.Name, w) }) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func printList(out io.Writer, mutants []mutant, left []equivalent) {
	for _, m := range mutants {
		fmt.Fprintf(out, "%s\n", m.Name)
	}
	fmt.Fprintf(out, "\n%d mutants. Left out, since no test can tell them from the original:\n\n", len(mutants))
	for _, e := range left {
		fmt.Fprintf(out, "%s: %s\n    %s\n", e.file, e.guard, e.reason)
	}
}
