package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// A verb is one of the operators' verbs, and what is asked before it is done to rows that were not named.
type verb struct {
	operate.Verb
	question string
}

var (
	redriving    = verb{operate.Redrive, "Redrive %s?"}
	cancelling   = verb{operate.Cancel, "Cancel %s?"}
	runningNow   = verb{operate.RunNow, "Run %s now?"}
	rescheduling = verb{operate.Reschedule, "Reschedule %s?"}
	discarding   = verb{operate.Discard, "Discard %s?"}
	deleting     = verb{operate.Delete, "Delete %s for good?"}
	unblocking   = verb{operate.Unblock, ""} // only of rows that are named
)

func newRedriveCommand(a *app) *cobra.Command {
	cmd := newCommand("redrive TABLE (ID... | --all-failed | FILTER...)",
		"Make failed rows ready again, with all their attempts", cobra.MinimumNArgs(1))
	return ofTable(cmd, a.redrive(cmd))
}

// ofTable makes a command of one that decides about the rows of a table: its first argument names the table.
func ofTable(cmd *cobra.Command, decide func(table string, texts []string) error) *cobra.Command {
	cmd.RunE = func(_ *cobra.Command, args []string) error { return decide(args[0], args[1:]) }
	return cmd
}

// redrive adds the flags of a redrive to a command, and returns the function that redrives rows of a table.
func (a *app) redrive(cmd *cobra.Command) func(table string, texts []string) error {
	actor := cmd.Flags().String("actor", "", "who asks for it (default: the database user)")
	return a.decider(cmd, redriving, allFailed, func(*database) ([]any, error) { return []any{note(*actor)}, nil })
}

func newCancelCommand(a *app) *cobra.Command {
	cmd := newCommand("cancel TABLE (ID... | --all-live | FILTER...)", "Cancel rows", cobra.MinimumNArgs(1))
	return ofTable(cmd, a.cancel(cmd, "by txwork cancel"))
}

// cancel adds the flags of a cancel to a command, and returns the function that cancels rows of a table.
func (a *app) cancel(cmd *cobra.Command, reason string) func(table string, texts []string) error {
	return a.decider(cmd, cancelling,
		allFlag{flag: "all-live", usage: "all rows that have not ended", states: operate.LiveStates},
		reasonFlag(cmd, reason))
}

func newRunNowCommand(a *app) *cobra.Command {
	cmd := newCommand("run-now TABLE (ID... | --all-scheduled | FILTER...)", "Make scheduled rows due now",
		cobra.MinimumNArgs(1))
	return ofTable(cmd, a.decider(cmd, runningNow,
		allFlag{flag: "all-scheduled", usage: "all rows that are due later", only: "scheduled"},
		func(*database) ([]any, error) { return nil, nil }))
}

func newRescheduleCommand(a *app) *cobra.Command {
	cmd := newCommand("reschedule TABLE (ID... | --all-ready | FILTER...) (--at TIME | --in AGE)",
		"Make ready rows due at another time", cobra.MinimumNArgs(1))
	var at moment
	var in age
	flags := cmd.Flags()
	flags.Var(&at, "at", "when, as RFC 3339 has it: 2027-03-01T08:30:00Z")
	flags.Var(&in, "in", "in how long, such as 90s, 36h or 14d, by the database's clock")
	cmd.MarkFlagsOneRequired("at", "in")
	cmd.MarkFlagsMutuallyExclusive("at", "in")
	return ofTable(cmd, a.decider(cmd, rescheduling,
		allFlag{flag: "all-ready", usage: "all rows that are to begin, or to begin again", states: operate.UnbegunStates},
		func(d *database) ([]any, error) {
			if !in.Given {
				return []any{at.Time}, nil
			}
			now, err := d.Now(cmd.Context())
			return []any{now.Add(in.Duration)}, err
		}))
}

func newDiscardCommand(a *app) *cobra.Command {
	cmd := newCommand("discard TABLE (ID... | --all-failed | FILTER...)",
		"Give failed rows up: they are kept as cancelled ones", cobra.MinimumNArgs(1))
	return ofTable(cmd, a.decider(cmd, discarding, allFailed, reasonFlag(cmd, "by txwork discard")))
}

func newDeleteCommand(a *app) *cobra.Command {
	cmd := newCommand("delete TABLE (ID... | --all-ended | FILTER...)", "Delete rows that have ended, for good",
		cobra.MinimumNArgs(1))
	return ofTable(cmd, a.decider(cmd, deleting,
		allFlag{flag: "all-ended", usage: "all rows that have ended", states: operate.EndedStates},
		func(*database) ([]any, error) { return nil, nil }))
}

func reasonFlag(cmd *cobra.Command, otherwise string) func(*database) ([]any, error) {
	reason := cmd.Flags().String("reason", otherwise, "why, for the row's last error")
	return func(*database) ([]any, error) { return []any{note(*reason)}, nil }
}

// note makes text storable.
func note(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// An allFlag is the flag that selects all rows about which a verb can decide.
type allFlag struct {
	flag, usage string
	states      []string // the flag --status selects some of these
	only        string   // the state, if there is no such flag
}

var allFailed = allFlag{flag: "all-failed", usage: "all rows that have failed, oldest first", only: "failed"}

// statusValues are the values of --status: the states, and expired.
func statusValues(states []string) []string {
	if slices.Contains(states, "in_progress") {
		return append(slices.Clone(states), "expired")
	}
	return states
}

// decider adds the flags that select rows to a command, and returns the function that decides about rows of a table.
func (a *app) decider(cmd *cobra.Command, v verb, whole allFlag, args func(*database) ([]any, error)) func(table string,
	texts []string) error {
	var s selection
	states := whole.states
	flags, values := cmd.Flags(), statusValues(whole.states)
	flags.BoolVar(&s.all, whole.flag, false, whole.usage)
	if len(states) > 0 {
		last := len(values) - 1
		flags.StringSliceVar(&states, "status", states, "without IDs, only rows in this `state`: "+
			strings.Join(values[:last], ", ")+" or "+values[last]+"; repeat for more")
	}
	s.addFlags(flags, repairedRows{})
	return func(table string, texts []string) error {
		ids, err := parseIDs(texts)
		if err == nil {
			err = s.check(len(ids) > 0, "--"+whole.flag)
		}
		if err != nil {
			return err
		}
		for _, state := range states {
			if !slices.Contains(values, state) {
				return usagef("--status %q cannot be %s, want one of %s", state, v.Done, strings.Join(values, ", "))
			}
			s.States = append(s.States, state)
		}
		if whole.only != "" {
			s.States = []string{whole.only}
		}
		return a.withTable(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
			if v.Args, err = args(d); err != nil {
				return err
			}
			r := repair{db: d, table: t, verb: v}
			if len(ids) > 0 {
				err = r.named(cmd.Context(), ids)
			} else {
				err = r.selected(cmd.Context(), s)
			}
			return r.report(err, s.json)
		})
	}
}

// A repair changes rows that an operator names.
type repair struct {
	db    *database
	table *workqueue.Table
	verb

	selecting *selected // nil if the rows were named
	changed   int
	unchanged []unchangedRow
}

// An unchangedRow is one that was named, and why it was left alone.
type unchangedRow struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"` // why it was left alone
}

func (r *repair) named(ctx context.Context, ids []uuid.UUID) error {
	for batch := range slices.Chunk(ids, operate.Batch) {
		all, err := r.db.Decide(ctx, r.table, r.Verb, batch, nil)
		if err != nil {
			return err
		}
		for _, one := range all {
			switch {
			case one.Changed:
				r.changed++
			case !r.Settled(one.Result):
				r.unchanged = append(r.unchanged, unchangedRow{one.ID, one.Why})
			}
		}
	}
	return nil
}

// report prints what was done, even if there is an error.
func (r *repair) report(err error, asJSON bool) error {
	a := r.db.app
	if errors.As(err, new(operate.Refusal)) || errors.As(err, new(usageError)) {
		return explain(err) // nothing was started
	}
	if printErr := r.print(a, asJSON); err == nil {
		err = printErr
	}
	if err != nil {
		return explain(err)
	}
	if n := len(r.unchanged); n > 0 {
		return fmt.Errorf("%s of %s could not be %s", plural(n, "row"), r.table.Name(), r.Done)
	}
	return nil
}

// repairedRows is what a repair prints.
type repairedRows struct {
	Table string `json:"table"` // with its schema
	*selected
	Changed   int            `json:"changed"`   // number of changed rows
	Unchanged []unchangedRow `json:"unchanged"` // named rows that were not changed
}

func (r *repair) print(a *app, asJSON bool) error {
	if asJSON {
		if r.unchanged == nil {
			r.unchanged = []unchangedRow{}
		}
		return a.printJSON(repairedRows{r.table.Name(), r.selecting, r.changed, r.unchanged})
	}
	for _, u := range r.unchanged {
		fmt.Fprintf(a.stderr, "txwork: %s was not %s: %s\n", u.ID, r.Done, u.Reason)
	}
	text := fmt.Sprintf("%s of %s %s\n", plural(r.changed, "row"), r.table.Name(), r.Done)
	if s := r.selecting; s != nil {
		text = s.text(r.table.Name(), r.Done, r.changed)
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}
