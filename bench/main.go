// Command bench measures txwork and its peers side by side. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/txwork/txwork/bench/check"
	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/logs"
	"github.com/txwork/txwork/bench/report"
	"github.com/txwork/txwork/bench/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nstopped; --resume goes on where a file of results was named")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flags are the flags of the command line.
type flags struct {
	lab.Request
	reportOnly bool
	docs       string // directory that the report is written below; "" for none
}

func parse(args []string) (f flags, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	o := &f.Options
	set.IntVar(&f.Rounds, "rounds", 5, "`times` that each cell is measured")
	d := results.DefaultOptions
	set.IntVar(&o.Jobs, "jobs", d.Jobs, "`jobs` of a drain and of a bulk enqueue")
	set.IntVar(&o.LatencyJobs, "latency-jobs", d.LatencyJobs, "`jobs` whose latency is measured in a round")
	set.IntVar(&o.PayloadBytes, "payload", d.PayloadBytes, "`bytes` of a job's payload")
	set.IntVar(&o.Batch, "batch", d.Batch, "`jobs` of one transaction in bulk")
	set.IntVar(&o.Connections, "connections", d.Connections, "`connections` that write single jobs, and of each pool")
	set.Float64Var(&o.Seconds, "seconds", d.Seconds, "`seconds` of writing single jobs")
	set.StringVar(&f.Binaries, "postgres", "", "`directory` of PostgreSQL's binaries (default: those that are "+
		"installed)")
	set.StringVar(&f.File, "json", "peers.json", "`file` of results; with --report-only several, separated by "+
		"commas, the one to be reported in full first")
	set.BoolVar(&f.Resume, "resume", false, "go on with what is missing in the file of results")
	set.DurationVar(&f.SlowDisk, "slow-disk", 0,
		"`time` that each flush of the server takes longer; wants a C compiler")
	set.DurationVar(&f.CellLimit, "cell-limit", 15*time.Minute, "`time` after which a cell has failed")
	set.BoolVar(&f.reportOnly, "report-only", false, "measure nothing: write the report of the results that are there")
	set.StringVar(&f.docs, "docs", "docs", "`directory` that the report is written to; empty for none")
	names := set.String("peers", "", "`names` of peers or name:profile, separated by commas (default: all that can "+
		"be run here)")
	workloads := set.String("workloads", "", "`names` of workloads, separated by commas (default: all)")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.Peers = list(*names)
	for _, name := range list(*workloads) {
		f.Workloads = append(f.Workloads, results.Workload(name))
	}
	f.Progress = lab.Progress{Out: os.Stderr}
	return f, f.check(set.Args())
}

func list(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
}

func (f flags) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown argument %q", rest[0])
	}
	for _, w := range f.Workloads {
		if !w.Known() {
			return fmt.Errorf("there is no workload %q, but %v", w, results.Workloads)
		}
	}
	o := f.Options
	for name, n := range map[string]int{"rounds": f.Rounds, "jobs": o.Jobs, "latency-jobs": o.LatencyJobs,
		"batch": o.Batch, "connections": o.Connections} {
		if n < 1 {
			return fmt.Errorf("--%s is %d, it must be at least 1", name, n)
		}
	}
	if !(o.Seconds > 0 && o.Seconds <= maxSeconds) || o.PayloadBytes < 0 || f.CellLimit <= 0 {
		return fmt.Errorf("--seconds must be positive and at most %d, --cell-limit positive, and --payload not negative", maxSeconds)
	}
	return f.checkFiles()
}

// maxSeconds is an hour. A larger value, or NaN, is most likely a mistake.
const maxSeconds = 3600

// checkFiles checks before hours of measuring what would otherwise fail only after them.
func (f flags) checkFiles() error {
	switch {
	case f.File == "":
		return errors.New("--json is empty, it must name a file")
	case !f.reportOnly && strings.Contains(f.File, ","):
		return errors.New("--json names several files, which only --report-only takes")
	case f.docs == "":
		return nil
	}
	return report.Check(filepath.Join(f.docs, page))
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "target" {
		return runTarget(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "check" {
		return check.Run(ctx, ".", args[1:], os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "logs" {
		return logs.Run(ctx, args[1:], os.Stdout, os.Stderr)
	}
	f, err := parse(args)
	if err != nil {
		return err
	}
	if !f.reportOnly {
		err = lab.Run(ctx, f.Request)
	}
	if err != nil && !errors.Is(err, lab.ErrCells) {
		return err
	}
	return errors.Join(err, f.report())
}

// page is the file of the report in the directory of documentation.
const page = "performance.md"

func (f flags) report() error {
	if f.docs == "" {
		return nil
	}
	var runs []results.Run
	for _, file := range list(f.File) {
		run, err := results.ReadRun(file)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return report.Write(filepath.Join(f.docs, page), runs)
}
