// Package fuzzing runs every fuzz target of the module, some at once, and prints what each came to.
//
//	go run ./proof fuzz --time 10m --parallel 4   # exit 1 where a target found something
//	go run ./proof fuzz --only FuzzCreate,schedule
//
// The input of a finding is kept in testdata/fuzz of its package, where every later run of the tests repeats it. Inputs
// that reached new code are kept in the go command's cache.
package fuzzing

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

type options struct {
	time     time.Duration
	parallel int
	only     []string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	flags.DurationVar(&o.time, "time", time.Minute,
		"for each target, without the time to build it and to run its corpus")
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "targets at once, each with one worker")
	only := flags.String("only", "", "run the targets that have one of these `words`, separated by commas, in their "+
		"package or name")
	if err = flags.Parse(args); err != nil {
		return o, err
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.parallel < 1:
		return o, fmt.Errorf("--parallel is %d, at least 1 is needed", o.parallel)
	case o.time <= 0:
		return o, errors.New("--time must be positive")
	}
	return o, nil
}

// Run does what the arguments say and tells whether a target found something, or did not run.
func Run(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	targets, err := find(ctx, o.only)
	if err != nil {
		return false, err
	}
	results := make([]result, len(targets))
	var lanes errgroup.Group
	lanes.SetLimit(o.parallel)
	for i, t := range targets {
		lanes.Go(func() error {
			fmt.Fprintf(progress, "== %s\n", t)
			results[i] = t.run(ctx, o.time)
			if results[i].failed {
				fmt.Fprintf(progress, "== %s\n%s", t, results[i].output)
			}
			return ctx.Err()
		})
	}
	if err := lanes.Wait(); err != nil {
		return false, err
	}
	for _, r := range results {
		found = found || r.failed
	}
	return found, report(out, results)
}
