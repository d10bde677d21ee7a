package main

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/bench"
)

func newBenchCommand(a *app) *cobra.Command {
	cmd := newGroup("bench", "Measure what this machine and server can do",
		newBenchDrainCommand(a),
		newBenchEnqueueCommand(a),
		newBenchLatencyCommand(a),
		newBenchSteadyCommand(a),
		newBenchTimersCommand(a),
		newBenchWorkCommand(a),
	)
	return cmd
}

// A readWorkload makes a workload from parsed flags, or says what is wrong with them.
type readWorkload func() (bench.Workload, error)

// newBenchWorkload makes the command of one workload. The function define adds its flags.
func newBenchWorkload(a *app, use, short string, define func(*cobra.Command) readWorkload) *cobra.Command {
	cmd := newCommand(use, short, noArguments)
	asJSON := new(bool)
	jsonVar(cmd.Flags(), asJSON, "end with one JSON object on one line; the summary goes to standard error",
		bench.Result{})
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
	o.DatabaseURL = cmp.Or(o.DatabaseURL, a.getenv(databaseURLEnv))
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

// printBench leaves standard output to the JSON object if one was asked for.
func (a *app) printBench(result *bench.Result, asJSON bool) error {
	if !asJSON {
		return result.Write(a.stdout)
	}
	if err := result.Write(a.stderr); err != nil {
		return err
	}
	return a.printJSON(result)
}

// benchLogger drops warnings, because some workloads fail attempts on purpose.
func (a *app) benchLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// between refuses a flag's value that is out of bounds.
func between[T int | int64 | float64](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return usagef("--%s is %v, it must be between %v and %v", flag, value, low, high)
}

// atMost refuses flags whose combined value is too large.
func atMost[T int | float64](flags string, value, high T) error {
	if value <= high {
		return nil
	}
	return usagef("%s is %.0f, it must be at most %.0f", flags, float64(value), float64(high))
}

// lasting is between for durations; the upper bound is always bench.MaxDuration.
func lasting(flag string, d, low time.Duration) error {
	if d >= low && d <= bench.MaxDuration {
		return nil
	}
	return usagef("--%s is %v, it must be between %v and %v", flag, d, low, bench.MaxDuration)
}

// payloadFlag gives a command the flag --payload-bytes.
func payloadFlag(cmd *cobra.Command, payload *int) {
	cmd.Flags().IntVar(payload, "payload-bytes", bench.DefaultPayload, "size of a job's args in `bytes`")
}
