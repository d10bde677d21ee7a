// Mutation shows that the tests notice when a guard is gone. It takes each guard out of the SQL and each fence out
// of the Go code in turn, builds the tests with that one change (no file of the repository is touched) and runs what is most likely to notice first. A mutant that no test kills is a guard which the next
// change may lose without a word.
//
//	go run ./internal/mutation               # all mutants; exit 1 with survivors
//	go run ./internal/mutation --list        # what there is, and what was left out and why
//	go run ./internal/mutation --only claim  # those whose name contains the word
//	go run ./internal/mutation --json        # one object a mutant on standard output
//
// What counts as a guard of the SQL is found in the files themselves (see guards.go), so that a new one cannot be
// forgotten; fences of the Go code and whatever no condition expresses stand in tables (edits_*.go).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	survivors, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

type options struct {
	list, json bool
	only       string
	parallel   int
	limit      time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	flags.BoolVar(&o.list, "list", false, "print the mutants and the equivalent ones, run nothing")
	flags.BoolVar(&o.json, "json", false, "print one JSON object a mutant")
	flags.StringVar(&o.only, "only", "", "run the mutants whose name contains this")
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "mutants at once, each with a server of its own")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "time for one suite")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && o.parallel < 1 {
		err = fmt.Errorf("--parallel is %d, at least 1 is needed", o.parallel)
	}
	return o, err
}

// run does what the arguments say and returns how many mutants survived.
func run(ctx context.Context, args []string, out, progress io.Writer) (int, error) {
	o, err := parse(args)
	if err != nil {
		return 0, err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return 0, err
	}
	mutants, left, err := collect(root)
	if err != nil {
		return 0, err
	}
	mutants = named(mutants, o.only)
	if len(mutants) == 0 {
		return 0, fmt.Errorf("no mutant has %q in its name", o.only)
	}
	if o.list {
		printList(out, mutants, left)
		return 0, nil
	}
	start := time.Now()
	results, err := runAll(ctx, root, mutants, o, func(r result, done int) {
		fmt.Fprintf(progress, "%3d/%d  %s\n", done, len(mutants), r)
	})
	if err != nil {
		return 0, err
	}
	return report(out, results, len(left), time.Since(start), o.json)
}

func named(mutants []mutant, word string) (chosen []mutant) {
	for _, m := range mutants {
		if strings.Contains(m.Name, word) {
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

// report prints who was killed by whom and returns how many survived.
func report(out io.Writer, results []result, left int, took time.Duration, asJSON bool) (survivors int, err error) {
	encoder := json.NewEncoder(out)
	for _, r := range results {
		if r.Killer == "" {
			survivors++
		}
		if asJSON {
			err = encoder.Encode(r)
		} else {
			_, err = fmt.Fprintln(out, r)
		}
		if err != nil {
			return survivors, err
		}
	}
	if !asJSON {
		fmt.Fprintf(out, "%d mutants, %d killed, %d survived; %d equivalent ones left out; %v\n",
			len(results), len(results)-survivors, survivors, left, took.Round(time.Second))
	}
	return survivors, nil
}
