package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/bench/lab"
	"github.com/txwork/txwork/bench/producers"
	"github.com/txwork/txwork/bench/report"
	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// A target is a row of the table of targets in docs/performance.md.
type target struct {
	measures string
	wanted   string
	run      func(ctx context.Context, c targetRun) error
}

// A targetRun says how a target is measured.
type targetRun struct {
	options results.Options
	rounds  int
	slow    time.Duration
	peers   []string // empty: the peers of the target
	out     io.Writer
}

// targets are the targets by their names on the command line.
var targets = map[string]target{
	"producers": {"32 producers on a disk that takes 1 ms longer to flush, a relay beside them",
		"0.65 of the rate without trigger, done p50 < 20 ms", variants(time.Millisecond, announced(0)...)},
	"trickle": {"the same at 20 transactions a second", "done p50 no worse than notifying always by more than 10 %",
		variants(time.Millisecond, announced(20)...)},
	"message": {"8 producers on a local disk: what one outbox message more costs a transaction, and what one more row of a " +
		"bare table would", "half of what it cost at first, which was 0.73 of the transaction without it",
		variants(0, seconds()...)},
	"single": {"8 producers, one job a transaction; first with a worker process of another queue beside them", "1.2 of River's bench settings",
		inTurn(compare(results.Served, "txwork:defaults", "river:bench"),
			compare(results.Single, "txwork:defaults", "river:bench"))},
	"latency": {"insert to handler start, idle", "p50 < 2 ms, p99 < 5 ms", compare(results.Latency, "txwork:defaults",
		"river:bench")},
	"idle": {"connections and transactions a second of idle queues", "at most 6 and 5, the same for fifty queues",
		loads([]float64{0}, []int{10, 50}, idlePeers...)},
	"busy": {"connections of ten busy queues; the producers' pool has 8 of them",
		"at most 8 beside the application's pool", loads([]float64{500}, []int{10}, idlePeers...)},
	"cost": {"processor time of a job by jobs a second", "1.4 ms at 50 a second, and less than River's",
		loads([]float64{10, 50, 100, 1000}, []int{0}, pacedPeers...)},
	"processes": {"1, 2, 4 and 8 processes on one queue", "1.05 of bare SQL's own fall", compare(results.Processes,
		"txwork:defaults", "sql")},
	"drain": {"jobs that are there, done and kept", "4.5 × River's bench settings, 0.55 of bare SQL",
		compare(results.Drain, "txwork:defaults", "sql", "river:bench")},
	"enqueue": {"jobs written in bulk", "2 × River's InsertManyFast", compare(results.Enqueue, "txwork:defaults",
		"river:bench")},
	"functions": {"SQL functions beside pgmq's, see BENCH_PGMQ_SQL", "drains no slower than pgmq's", inTurn(
		compare(results.Enqueue, "functions:hundred", "pgmq:hundred"),
		compare(results.Single, "functions:hundred", "pgmq:hundred"),
		compare(results.Drain, "functions:hundred", "pgmq:hundred"),
		compare(results.DrainDeleted, "functions:hundred", "pgmq:hundred"),
		compare(results.Drain, "functions:one", "pgmq:one"),
		compare(results.DrainDeleted, "functions:one", "pgmq:one"))},
	"kept": {"held snapshot, retained jobs, crowds, failing jobs, timers, log", "what was met stays met", commands(
		"go run ./cmd/txwork bench drain --jobs 400000 --hold-snapshot",
		"go run ./cmd/txwork bench drain --jobs 100000",
		"go run ./cmd/txwork bench drain --jobs 100000 --fail 10%",
		"go run ./cmd/txwork bench timers",
		"go test -count 1 -run TestWriteAheadLog|CannotBeClaimed -v ./internal/costs",
	)},
}

// Peers that are measured at fixed rates. Those on Node are left out if they cannot be run.
var (
	idlePeers  = []string{"txwork:defaults", "river:bench", "river:defaults"}
	pacedPeers = []string{"txwork", "sql:bench", "river:bench", "river:defaults", "graphile-worker:bench",
		"graphile-worker:defaults", "pg-boss:bench"}
)

// runTarget measures one target.
func runTarget(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bench target", flag.ContinueOnError)
	c := targetRun{options: results.DefaultOptions, out: os.Stdout}
	set.IntVar(&c.rounds, "rounds", 3, "`times` that each cell is measured")
	set.Float64Var(&c.options.Seconds, "seconds", 20, "`seconds` of writing")
	set.IntVar(&c.options.Jobs, "jobs", c.options.Jobs, "`jobs` of a drain and of a bulk enqueue")
	set.DurationVar(&c.slow, "slow-disk", 0, "`time` that each flush of the server takes longer; wants a C compiler")
	peers := set.String("peers", "", "`names` of peers or name:profile, separated by commas (default: the target's)")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("name a target: %s", strings.Join(slices.Sorted(maps.Keys(targets)), ", "))
	}
	t, known := targets[args[0]]
	if !known {
		return fmt.Errorf("there is no target %q, but %s", args[0], strings.Join(slices.Sorted(maps.Keys(targets)),
			", "))
	}
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	c.peers = list(*peers)
	if c.rounds < 1 || c.options.Jobs < 1 || !(c.options.Seconds > 0 && c.options.Seconds <= maxSeconds) {
		return fmt.Errorf("--rounds and --jobs must be at least 1, --seconds positive and at most %d", maxSeconds)
	}
	fmt.Fprintf(c.out, "%s: wanted %s\n", t.measures, t.wanted)
	return t.run(ctx, c)
}

// compare measures a workload of the bench and compares the first peer with the others.
func compare(w results.Workload, peers ...string) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		dir, err := os.MkdirTemp("", "txwork-target-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		r := lab.Request{
			Options: c.options, Rounds: c.rounds, Peers: c.peers, Workloads: []results.Workload{w}, SlowDisk: c.slow,
			File: filepath.Join(dir, "peers.json"), CellLimit: 15 * time.Minute, Progress: lab.Progress{Out: os.Stderr},
		}
		if len(r.Peers) == 0 {
			r.Peers = peers
		}
		if err := lab.Run(ctx, r); err != nil {
			return err
		}
		run, err := results.ReadRun(r.File)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s:\n", w)
		return report.WriteComparison(c.out, run.Cells)
	}
}

// inTurn measures one target in several ways, one after the other.
func inTurn(runs ...func(context.Context, targetRun) error) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		for _, run := range runs {
			if err := run(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// loads measures peers at several rates and with several numbers of queues.
func loads(rates []float64, queues []int, peers ...string) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		r := lab.LoadRequest{Options: c.options, Rates: rates, Queues: queues, Rounds: c.rounds, SlowDisk: c.slow,
			Progress: lab.Progress{Out: os.Stderr}}
		if r.Peers = c.peers; len(r.Peers) == 0 {
			r.Peers, r.Skip = peers, true
		}
		all, err := lab.RunLoads(ctx, r)
		return errors.Join(report.WriteLoads(c.out, all), err)
	}
}

// variants measures variants of the producers by turns, round by round, on a server of its own each time.
func variants(slow time.Duration, all ...producers.Options) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		if c.slow > 0 {
			slow = c.slow
		}
		runs := make([][]producers.Result, len(all))
		for range c.rounds {
			for i, o := range all {
				o.Length = time.Duration(c.options.Seconds * float64(time.Second))
				r, err := produce(ctx, slow, o)
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%-9s %2d producers, %s\n", o.Name(), o.Producers, r)
				runs[i] = append(runs[i], r)
			}
		}
		writeVariants(c.out, all, runs)
		return nil
	}
}

func produce(ctx context.Context, slow time.Duration, o producers.Options) (r producers.Result, err error) {
	l, err := lab.Open(ctx, results.Options{}, "", slow)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return producers.Run(ctx, l.URL(), o)
}

// writeVariants writes the medians of the variants, and compares each with the first.
func writeVariants(out io.Writer, all []producers.Options, runs [][]producers.Result) {
	var first float64
	for i, o := range all {
		of := func(figure func(producers.Result) float64) float64 { return measure.SpreadBy(runs[i], figure).Median }
		median := producers.Result{
			PerSecond: of(func(r producers.Result) float64 { return r.PerSecond }),
			P50:       of(func(r producers.Result) float64 { return r.P50 }),
			P99:       of(func(r producers.Result) float64 { return r.P99 }),
			Max:       of(func(r producers.Result) float64 { return r.Max }),
		}
		if i == 0 {
			first = median.PerSecond
		}
		fmt.Fprintf(out, "median of %s: %.2f of the first one's, %.0f µs a transaction more: %s\n", o.Name(),
			median.PerSecond/first, 1e6/median.PerSecond-1e6/first, median)
	}
}

// announced are producers of messages beside a relay, by how an insert is announced.
func announced(rate float64) (all []producers.Options) {
	for _, trigger := range []string{"off", "always", "announcer"} {
		all = append(all, producers.Options{Producers: 32, Rate: rate, Trigger: trigger, Second: "message",
			Relay: true})
	}
	return all
}

// seconds are producers without a relay, by what a transaction writes beside its own row.
func seconds() (all []producers.Options) {
	for _, second := range []string{"none", "row", "message"} {
		all = append(all, producers.Options{Producers: 8, Trigger: "off", Second: second})
	}
	return all
}

// commands runs commands of this checkout, one after the other.
func commands(lines ...string) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		dir, err := lab.Dir(ctx)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintf(c.out, "\n$ %s\n", line)
			words := strings.Fields(line)
			command := exec.CommandContext(ctx, words[0], words[1:]...)
			command.Env = append(os.Environ(), "TXWORK_TEST_FULL=1")
			command.Dir, command.Stdout, command.Stderr = filepath.Dir(dir), c.out, os.Stderr
			if err := command.Run(); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	}
}
