//go:build unix

package series

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// options are the flags of a series.
type options struct {
	dir       string
	seeds     int
	first     uint64
	duration  time.Duration
	rows      int
	broken    bool
	parallel  int
	install   bool
	page      string
	pageAlone bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("series", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "torture-series"), "where results and logs are")
	flags.IntVar(&o.seeds, "seeds", 10, "runs with all faults")
	flags.Uint64Var(&o.first, "first", 1, "the first seed")
	flags.DurationVar(&o.duration, "duration", 10*time.Minute, "how long faults strike in each of them")
	flags.IntVar(&o.rows, "rows", 1_000_000,
		"rows of the run in which PostgreSQL crashes again and again; 0 leaves it out")
	flags.BoolVar(&o.broken, "broken", true, "torture builds that are broken on purpose")
	flags.IntVar(&o.parallel, "parallel", 1, "runs side by side")
	flags.BoolVar(&o.install, "install", false, "install what faults need with apt-get; needs root")
	flags.StringVar(&o.page, "page", "docs/reliability.md", "page that the report is written into; empty for none")
	flags.BoolVar(&o.pageAlone, "report", false, "run nothing: write the page from the results that are there")
	if err = flags.Parse(args); err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, err
}

// Run runs a series, and tells whether an invariant was broken or a broken build was not found out.
func Run(ctx context.Context, args []string, out, progress io.Writer) (wrong bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return false, err
	}
	code, err := revision(ctx)
	if err != nil {
		return false, err
	}
	s := &runner{options: o, code: code, out: out}
	if !o.pageAlone {
		if err := s.build(ctx); err != nil {
			return false, err
		}
		if err := s.all(ctx); err != nil {
			return false, err
		}
	}
	results, err := readResults(o.dir, s.plan())
	if err != nil {
		return false, err
	}
	if o.page != "" {
		if err := writePage(o.page, results); err != nil {
			return false, err
		}
	}
	for _, err := range judge(results) {
		fmt.Fprintln(progress, err)
		wrong = true
	}
	return wrong, nil
}
