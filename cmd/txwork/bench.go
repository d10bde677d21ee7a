package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/bench"
)

func newBenchCommand(a *app) *cobra.Command {
	cmd := newGroup("bench", "Measure what this machine and server can do",
		newBenchDrainCommand(a),
		newBenchEnqueueCommand(a),
		newBenchLatencyCommand(a),
		newBenchSteadyCommand(a),
		newBenchTimersCommand(a),
		newBenchRetainedCommand(a),
		newBenchCrowdCommand(a),
		newBenchCronCommand(a),
		newBenchWorkCommand(a),
	)
	cmd.Long = `Measure what this machine and server can do, to size a system. Handlers do nothing and options are the
defaults, so figures are those of the queue itself. They move with the machine and from run to run: repeat them.

Without --database-url and ` + databaseURLEnv + ` a private PostgreSQL is started, with fsync and
synchronous_commit on, and removed at the end. With one of them that server is used, in a schema
txwork_bench_<random>, which is dropped at the end, also on Ctrl-C. A process that is killed leaves it behind.

What was done is counted in the database. Costs are differences of PostgreSQL's own counters: bytes of
write-ahead log and commits are those of the whole server and database, so on one that others use they include
theirs. CPU of the server is that of all processes of the private one. Producers and workers are in this process,
but for those of drain --processes; they share the cores with a server on the same machine.

--json ends with one object on one line. Exit code 1 if something was lost or a timer fired early; 130 if
interrupted, after what was measured until then.`
	return cmd
}

// newBenchWorkload makes the command of one workload. Define adds its flags and returns what makes the workload of
// them, when they have been parsed, or tells what is wrong with them.
func newBenchWorkload(a *app, use, short, long string, define func(*cobra.Command) func() (bench.Workload,
	error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs}
	asJSON := cmd.Flags().Bool("json", false,
		"end with one JSON object on one line; the summary goes to standard error")
	workload := define(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("schema") {
			return usagef("the bench creates a schema of its own: omit --schema")
		}
		w, err := workload()
		if err != nil {
			return err
		}
		return a.runBench(cmd, w, *asJSON)
	}
	return cmd
}

func (a *app) runBench(cmd *cobra.Command, w bench.Workload, asJSON bool) error {
	o := bench.Options{DatabaseURL: a.databaseURL, Logger: a.benchLogger(), Process: benchWorkers}
	if o.DatabaseURL == "" {
		o.DatabaseURL = a.getenv(databaseURLEnv)
	}
	if _, err := parseURL(o.DatabaseURL); o.DatabaseURL != "" && err != nil {
		return err
	}
	bars := &phases{app: a}
	o.Progress = bars.show
	result, err := bench.Run(cmd.Context(), o, w)
	bars.clear()
	if result != nil && (err == nil || errors.Is(err, bench.ErrInterrupted)) {
		if printErr := a.printBench(result, asJSON); printErr != nil {
			return printErr
		}
	}
	if err != nil {
		return explain(err)
	}
	return result.Err()
}

// printBench leaves standard output to the object where one is wanted.
func (a *app) printBench(result *bench.Result, asJSON bool) error {
	if !asJSON {
		return result.Write(a.stdout)
	}
	if err := result.Write(a.stderr); err != nil {
		return err
	}
	return a.printJSON(result)
}

// benchLogger leaves out the warnings: of attempts that fail on purpose.
func (a *app) benchLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// between refuses a flag's value outside of its bounds.
func between[T int | int64 | float64](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return usagef("--%s is %v, it must be between %v and %v", flag, value, low, high)
}

// atMost refuses flags that are too much together.
func atMost[T int | float64](flags string, value, high T) error {
	if value <= high {
		return nil
	}
	return usagef("%s is %.0f, it must be at most %.0f", flags, float64(value), float64(high))
}

// lasting is between for durations.
func lasting(flag string, d, low time.Duration) error {
	if d >= low && d <= bench.MaxDuration {
		return nil
	}
	return usagef("--%s is %v, it must be between %v and %v", flag, d, low, bench.MaxDuration)
}

// payloadFlag gives a command the flag --payload.
func payloadFlag(cmd *cobra.Command, payload *int) {
	cmd.Flags().IntVar(payload, "payload", bench.DefaultPayload, "size of a job's args in `bytes`")
}
