package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// repairBatch is how many rows redrive and cancel change in one transaction.
const repairBatch = 1000

func newRedriveCommand(a *app) *cobra.Command {
	cmd := newCommand("redrive TABLE (ID... | --all-failed | FILTER...)",
		"Make failed rows ready again, with all their attempts", cobra.MinimumNArgs(1))
	redrive := a.redrive(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return redrive(args[0], args[1:]) }
	return cmd
}

// redrive adds the flags of a redrive to a command, and returns the function that redrives rows of a table.
func (a *app) redrive(cmd *cobra.Command) func(table string, texts []string) error {
	s := selection{parts: []listing{deadLetters}}
	flags := cmd.Flags()
	flags.BoolVar(&s.all, "all-failed", false, "all rows that have failed, oldest first")
	actor := flags.String("actor", "", "who asks for it (default: the database user)")
	s.addFlags(flags, repairedRows{})
	return func(table string, texts []string) error {
		return a.repairRows(cmd, table, texts, "--all-failed", s, func(q *workqueue.Queue) repair {
			return repair{verb: "redriven", imperative: "Redrive", settled: nothing,
				change: func(ids []uuid.UUID) ([]uuid.UUID, error) { return q.Redrive(cmd.Context(), ids, *actor) }}
		})
	}
}

func newCancelCommand(a *app) *cobra.Command {
	cmd := newCommand("cancel TABLE (ID... | --all-live | FILTER...)", "Cancel rows", cobra.MinimumNArgs(1))
	cancel := a.cancel(cmd, "by txwork cancel")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return cancel(args[0], args[1:]) }
	return cmd
}

// liveStates are the states of rows that can be cancelled. Expired rows count as in progress.
var liveStates = []string{"ready", "scheduled", "waiting", "in_progress"}

// cancel adds the flags of a cancel to a command, and returns the function that cancels rows of a table.
func (a *app) cancel(cmd *cobra.Command, reason string) func(table string, texts []string) error {
	s, states := selection{}, []string(nil)
	flags := cmd.Flags()
	flags.BoolVar(&s.all, "all-live", false, "all rows that have not ended")
	flags.StringSliceVar(&states, "status", liveStates,
		"without IDs, only rows in this `state`: ready, scheduled, waiting, in_progress or expired; repeat for more")
	why := flags.String("reason", reason, "why, for the row's last error")
	s.addFlags(flags, repairedRows{})
	return func(table string, texts []string) error {
		var err error
		if s.parts, err = liveParts(states); err != nil {
			return err
		}
		return a.repairRows(cmd, table, texts, "--all-live", s, func(q *workqueue.Queue) repair {
			return repair{verb: "cancelled", imperative: "Cancel", settled: foundRow.cancelled,
				change: func(ids []uuid.UUID) ([]uuid.UUID, error) { return q.Cancel(cmd.Context(), ids, *why) }}
		})
	}
}

func liveParts(states []string) (parts []listing, err error) {
	for _, state := range states {
		if !slices.Contains(liveStates, state) && state != "expired" {
			return nil, usagef("--status %q cannot be cancelled, want ready, scheduled, waiting, in_progress or expired",
				state)
		}
		parts = append(parts, listings[state])
	}
	return parts, nil
}

// repairRows changes the rows that are named, or those that a selection matches.
func (a *app) repairRows(cmd *cobra.Command, table string, texts []string, all string, s selection,
	make func(*workqueue.Queue) repair) error {
	ids, err := parseIDs(texts)
	if err == nil {
		err = s.check(len(ids) > 0, all)
	}
	if err != nil {
		return err
	}
	return a.withTable(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
		r := make(t.On(d.pool))
		r.db, r.table = d, t
		if len(ids) > 0 {
			err = r.named(cmd.Context(), ids)
		} else {
			err = r.selected(cmd.Context(), s)
		}
		return r.report(err, s.json)
	})
}

// A repair changes rows that an operator names.
type repair struct {
	db         *database
	table      *workqueue.Table
	verb       string // what was done to the rows, such as "redriven"
	imperative string // the verb of the question
	change     func([]uuid.UUID) ([]uuid.UUID, error)
	// settled tells whether a row was left alone because it already is in the intended state.
	settled func(foundRow) bool

	selecting *selected // nil if the rows were named
	changed   int
	unchanged []unchangedRow
}

// A foundRow is a row that was named but not changed.
type foundRow struct {
	Status    rowStatus `db:"status"`
	Cancelled bool      `db:"cancelled"`
	// Holder is the row that holds the unique value which this one has given up.
	Holder uuid.NullUUID `db:"holder"`
}

// cancelled tells whether the row was cancelled before, or its cancel is pending. Its handler may have acknowledged it
// all the same.
func (f foundRow) cancelled() bool {
	return f.Cancelled && workqueue.Status(f.Status) != workqueue.Done
}

func nothing(foundRow) bool { return false }

// An unchangedRow is one that was named, and why it was left alone.
type unchangedRow struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"` // why it was left alone
}

func (r *repair) named(ctx context.Context, ids []uuid.UUID) error {
	for batch := range slices.Chunk(ids, repairBatch) {
		changed, err := r.change(batch)
		if err != nil {
			return err
		}
		r.changed += len(changed)
		left := slices.DeleteFunc(slices.Clone(batch), func(id uuid.UUID) bool { return slices.Contains(changed, id) })
		if err := r.explainUnchanged(ctx, left); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) explainUnchanged(ctx context.Context, ids []uuid.UUID) error {
	holder := "NULL"
	if spec := r.table.Spec(); spec.FreedColumn != "" {
		holder = fmt.Sprintf("(SELECT h.id FROM %s AS h WHERE h.%q = r.%q)", r.quoted(), spec.Unique[0],
			spec.FreedColumn)
	}
	for _, id := range ids {
		var found foundRow
		query := fmt.Sprintf("SELECT r.status, r.cancelled_at IS NOT NULL AS cancelled, %s AS holder FROM %s AS r "+
			"WHERE r.id = $1", holder, r.quoted())
		err := r.db.reader.GetContext(ctx, &found, query, id)
		reason := ""
		switch {
		case errors.Is(err, sql.ErrNoRows):
			reason = "there is no such row"
		case err != nil:
			return err
		case r.settled(found):
			continue // already as intended, for example because the command was repeated
		case found.Holder.Valid && workqueue.Status(found.Status) == workqueue.Failed:
			reason = fmt.Sprintf("row %s holds its unique key", found.Holder.UUID)
		default:
			reason = fmt.Sprintf("it is %s", found.Status)
		}
		r.unchanged = append(r.unchanged, unchangedRow{id, reason})
	}
	return nil
}

func (r *repair) quoted() string {
	spec := r.table.Spec()
	return pgx.Identifier{spec.Schema, spec.Table}.Sanitize()
}

// report prints what was done, even if there is an error.
func (r *repair) report(err error, asJSON bool) error {
	a := r.db.app
	if errors.As(err, new(usageError)) {
		return err // nothing was started
	}
	if printErr := r.print(a, asJSON); err == nil {
		err = printErr
	}
	if err != nil {
		return explain(err)
	}
	if n := len(r.unchanged); n > 0 {
		return fmt.Errorf("%s of %s could not be %s", plural(n, "row"), r.table.Name(), r.verb)
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
		fmt.Fprintf(a.stderr, "txwork: %s was not %s: %s\n", u.ID, r.verb, u.Reason)
	}
	text := fmt.Sprintf("%s of %s %s\n", plural(r.changed, "row"), r.table.Name(), r.verb)
	if s := r.selecting; s != nil {
		text = s.text(r.table.Name(), r.verb, r.changed)
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}
