package check

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/results"
)

// options are what the command line says.
type options struct {
	base   string
	rounds int
	jobs   int
	beside []string
	short  bool
	json   bool

	workloads []results.Workload
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.base, "base", "",
		"commit to compare with (default: the merge base with main, or HEAD~1 on main)")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of A B B A (default 3, with --short 1)")
	flags.BoolVar(&o.short, "short", false, "about a minute, for a log: small sizes")
	flags.BoolVar(&o.json, "json", false, "print one JSON object on one line in the place of the table")
	flags.IntVar(&o.jobs, "jobs", 0, "jobs of a drain and of a bulk enqueue (default 50,000, with --short 20,000)")
	beside := flags.String("beside", "", "`peers` that take turns, too, such as sql,river:bench")
	names := flags.String("workloads", "drain,enqueue,latency", "`names` of workloads, separated by commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(*names, ",") {
		w := results.Workload(name)
		if !w.Known() {
			return o, fmt.Errorf("there is no workload %q, but %v", name, results.Workloads)
		}
		o.workloads = append(o.workloads, w)
	}
	if o.rounds == 0 {
		o.rounds = 3
		if o.short {
			o.rounds = 1
		}
	}
	if *beside != "" {
		o.beside = strings.Split(*beside, ",")
	}
	if o.rounds < 0 || o.jobs < 0 || flags.NArg() > 0 {
		err = errors.New("want no arguments, and at least one round and one job")
	}
	return o, err
}

// sizes are those of a run.
func (o options) sizes() results.Options {
	sizes := results.DefaultOptions
	sizes.Jobs, sizes.LatencyJobs = 50_000, 300
	if o.short {
		sizes.Jobs, sizes.LatencyJobs = 20_000, 50
	}
	if o.jobs > 0 {
		sizes.Jobs = o.jobs
	}
	return sizes
}

// The names of the two sides, as peers.
const (
	base = "base"
	tree = "working-tree"

	profile = "defaults" // of both
)

// cellLimit is far more than a cell takes.
const cellLimit = 3 * time.Minute

// Run builds, measures and reports on the repository that a directory is in.
func Run(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b, err := checkOut(ctx, dir, o.base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove()) }()
	fmt.Fprintf(stderr, "base:         %s\nworking tree: %s, as it is\n", b.base, b.tree)
	file := filepath.Join(b.dir, "results.json")
	measured := lab.Run(ctx, lab.Request{
		Options: o.sizes(), Rounds: 2 * o.rounds, Workloads: o.workloads, File: file, CellLimit: cellLimit,
		Checkouts: b.checkouts(), Peers: append([]string{sides[0].String(), sides[1].String()}, o.beside...),
		Progress: lab.Progress{Out: stderr},
	})
	_, cells, err := results.Read(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return measured
	case err != nil:
		return errors.Join(measured, err)
	case errors.Is(measured, lab.ErrCells):
		measured = failed(cells)
	}
	return errors.Join(measured, newReport(b, cells).write(stdout, o.json))
}

// failed returns the errors of the working tree. The base may lack a fix that a cell needs.
func failed(cells []results.Cell) error {
	var errs []error
	for _, c := range cells {
		if c.Error != "" && c.Peer == tree {
			errs = append(errs, fmt.Errorf("%s: %s", c.Key, c.Error))
		}
	}
	return errors.Join(errs...)
}
