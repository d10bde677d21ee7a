//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Options of a series.
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

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "torture-series"), "where results and logs are")
	flag.IntVar(&o.seeds, "seeds", 10, "runs with all faults")
	flag.Uint64Var(&o.first, "first", 1, "the first seed")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long faults strike in each of them")
	flag.IntVar(&o.rows, "rows", 1_000_000, "rows of the run in which PostgreSQL crashes again and again; 0 leaves it out")
	flag.BoolVar(&o.broken, "broken", true, "torture builds that are broken on purpose")
	flag.IntVar(&o.parallel, "parallel", 1, "runs side by side")
	flag.BoolVar(&o.install, "install", false, "install what faults need with apt-get; needs root")
	flag.StringVar(&o.page, "page", "docs/reliability.md", "page that the report is written into; empty for none")
	flag.BoolVar(&o.pageAlone, "report", false, "run nothing: write the page from the results that are there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := series(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "series:", err)
		os.Exit(1)
	}
}

func series(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	code, err := revision(ctx)
	if err != nil {
		return err
	}
	s := &runner{options: o, code: code}
	if !o.pageAlone {
		if err := s.build(ctx); err != nil {
			return err
		}
		if err := s.all(ctx); err != nil {
			return err
		}
	}
	results, err := readResults(o.dir, s.plan())
	if err != nil {
		return err
	}
	if o.page != "" {
		if err := writePage(o.page, results); err != nil {
			return err
		}
	}
	return errors.Join(judge(results)...)
}
