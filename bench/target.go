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
	"github.com/txwork/txwork/bench/report"
	"github.com/txwork/txwork/bench/results"
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
		"0.65 of the rate without trigger, done p50 < 20 ms", producers(announced, time.Millisecond)},
	"trickle": {"the same at 20 transactions a second", "done p50 no worse than notifying always by more than 10 %",
		producers(announced, time.Millisecond, "-rate", "20")},
	"message": {"8 producers on a local disk: what one outbox message more costs a transaction, and what one more row of a " +
		"bare table would", "half of what it cost at first, which was 0.73 of the transaction without it",
		producers(seconds, 0, "-trigger", "off", "-relay=false", "-producers", "8")},
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
	"kept": {"held snapshot, retained jobs, crowds, failing jobs, timers, log", "what was met stays met", commands(
		"go run ./cmd/txwork bench drain --jobs 400000 --hold-snapshot",
		"go run ./cmd/txwork bench retained",
		"go run ./cmd/txwork bench crowd --kind paused",
		"go run ./cmd/txwork bench crowd --kind unknown",
		"go run ./cmd/txwork bench crowd --kind blocked",
		"go run ./cmd/txwork bench crowd --kind rate",
		"go run ./cmd/txwork bench drain --jobs 100000",
		"go run ./cmd/txwork bench drain --jobs 100000 --fail 10%",
		"go run ./cmd/txwork bench timers",
		"go test -count 1 -run TestWriteAheadLog -v ./internal/costs",
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

// Variants of the producers: how an insert is announced, and what a transaction writes beside its own row.
const (
	announced = "-trigger off,-trigger always,-trigger announcer"
	seconds   = "-second none,-second row,-second message"
)

// producers runs the program bench/producers in some variants.
func producers(variants string, slow time.Duration, args ...string) func(context.Context, targetRun) error {
	return func(ctx context.Context, c targetRun) error {
		dir, err := lab.Dir(ctx)
		if err != nil {
			return err
		}
		script := filepath.Join(dir, "producers", "run.sh")
		command := exec.CommandContext(ctx, "bash", append([]string{script, variants}, args...)...)
		command.Env = append(os.Environ(), fmt.Sprintf("ROUNDS=%d", c.rounds))
		if slow > 0 {
			command.Env = append(command.Env, fmt.Sprintf("SLOW_DISK_US=%d", slow.Microseconds()))
		}
		command.Stdout, command.Stderr = c.out, os.Stderr
		return command.Run()
	}
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
			command.Dir, command.Stdout, command.Stderr = filepath.Dir(dir), c.out, os.Stderr
			if err := command.Run(); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	}
}
