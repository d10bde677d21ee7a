// Package versions runs the tests on every release of PostgreSQL and of Go that is promised, in every mode in which pgx
// sends statements, and through PgBouncer.
//
//	go run ./proof versions                    # everything; exit 1 where something failed
//	go run ./proof versions --short            # the conformance suites alone
//	go run ./proof versions --only PostgreSQL  # what has the word in its name, such as 17, simple_protocol, Go
//	go run ./proof versions --packages outbox  # the tests of packages that have the word in their path
//	go run ./proof versions --list             # what there is
//
// What cannot be had, for want of a network say, is said at once and counts as skipped in the table at the end.
package versions

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

type options struct {
	list, short bool
	only        []string
	packages    []string
	limit       time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("versions", flag.ContinueOnError)
	flags.BoolVar(&o.list, "list", false, "print what there is, run nothing")
	flags.BoolVar(&o.short, "short", false, "run the conformance suites alone")
	only := flags.String("only", "", "run what has one of these `words`, separated by commas, in its name")
	packages := flags.String("packages", "", "test the packages that have one of these `words`, separated by commas, "+
		"in their path")
	flags.DurationVar(&o.limit, "limit", 20*time.Minute, "time for the tests of one package")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.only, o.packages = split(*only), split(*packages)
	return o, err
}

func split(words string) []string {
	if words == "" {
		return nil
	}
	return strings.Split(words, ",")
}

// Run does what the arguments say and tells whether something failed.
func Run(ctx context.Context, args []string, out, progress io.Writer) (failed bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	chosen := named(matrix(o.short), o.only)
	if len(chosen) == 0 {
		return false, fmt.Errorf("nothing has %s in its name", strings.Join(o.only, " or "))
	}
	if o.list {
		for _, e := range chosen {
			fmt.Fprintln(out, e.name)
		}
		return false, nil
	}
	b, err := newBuilder(o.packages)
	if err != nil {
		return false, err
	}
	defer b.remove()
	var results []result
	for _, e := range chosen {
		r := e.run(ctx, b, o.limit, progress)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		results = append(results, r)
		failed = failed || r.verdict() == "FAIL"
	}
	return failed, report(out, results)
}

func named(all []environment, words []string) (chosen []environment) {
	for _, e := range all {
		if containsAny(e.name, words) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// containsAny is true where there are no words.
func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			return true
		}
	}
	return len(words) == 0
}
