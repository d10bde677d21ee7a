package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// repairBatch is how many rows redrive and cancel change in one transaction.
const repairBatch = 1000

func newRedriveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive TABLE (ID... | --all-failed)",
		Short: "Make failed rows ready again, with all their attempts",
		Long: `Make failed rows ready again, with all their attempts. Who asked and when is kept in the rows' headers.
Rows named by ID that are not failed are left alone and reported, with exit code 1.`,
		Args: cobra.MinimumNArgs(1),
	}
	redrive := a.redrive(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return redrive(args[0], args[1:]) }
	return cmd
}

// redrive gives a command the flags of a redrive and returns what it does with a table and ids.
func (a *app) redrive(cmd *cobra.Command) func(table string, texts []string) error {
	flags := cmd.Flags()
	all := flags.Bool("all-failed", false, "all rows that have failed by now, the oldest first")
	limit := flags.Int("limit", 0, "with --all-failed, at most so many (default: all)")
	actor := flags.String("actor", "", "who asks for it (default: the database user)")
	asJSON := jsonFlag(cmd)
	return func(table string, texts []string) error {
		ids, err := parseIDs(texts)
		if err != nil {
			return err
		}
		if *all == (len(ids) > 0) {
			return usagef("say which rows: either their ids or --all-failed")
		}
		if *limit < 0 || flags.Changed("limit") && (*limit == 0 || !*all) {
			return usagef("--limit goes with --all-failed and must be at least 1")
		}
		return a.withTable(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
			redrive := func(ids []uuid.UUID) ([]uuid.UUID, error) { return t.On(d.pool).Redrive(cmd.Context(), ids, *actor) }
			r := repair{db: d, table: t, verb: "redriven", change: redrive, settled: nothing}
			if *all {
				err = r.allFailed(cmd.Context(), *limit)
			} else {
				err = r.named(cmd.Context(), ids)
			}
			return r.report(err, *asJSON)
		})
	}
}

func newCancelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel TABLE ID...",
		Short: "End rows that are not wanted any more",
		Long: `End ready rows as failed, with the time of the cancellation. For a row in progress the wish is recorded and its
worker told: the handler's context is cancelled and, unless it acknowledges all the same, the row ends.
Cancelling again changes nothing. Rows that have ended are reported, with exit code 1.`,
		Args: cobra.MinimumNArgs(2),
	}
	cancel := a.cancel(cmd, "by txwork cancel")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return cancel(args[0], args[1:]) }
	return cmd
}

// cancel gives a command the flags of a cancel and returns what it does with a table and ids.
func (a *app) cancel(cmd *cobra.Command, reason string) func(table string, texts []string) error {
	why := cmd.Flags().String("reason", reason, "why, for the row's last error")
	asJSON := jsonFlag(cmd)
	return func(table string, texts []string) error {
		ids, err := parseIDs(texts)
		if err != nil {
			return err
		}
		return a.withTable(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
			cancel := func(ids []uuid.UUID) ([]uuid.UUID, error) { return t.On(d.pool).Cancel(cmd.Context(), ids, *why) }
			r := repair{db: d, table: t, verb: "cancelled", change: cancel, settled: foundRow.cancelled}
			return r.report(r.named(cmd.Context(), ids), *asJSON)
		})
	}
}

// A repair changes rows that an operator names.
type repair struct {
	db     *database
	table  *workqueue.Table
	verb   string // what was done to the rows
	change func([]uuid.UUID) ([]uuid.UUID, error)
	// settled tells a row that was left alone because it is already as it is to be.
	settled func(foundRow) bool

	changed   int
	unchanged []unchangedRow
}

// A foundRow is one that was named and left alone.
type foundRow struct {
	Status    rowStatus `db:"status"`
	Cancelled bool      `db:"cancelled"`
}

func (f foundRow) cancelled() bool { return f.Cancelled }

func nothing(foundRow) bool { return false }

// An unchangedRow is one that was named, and why it was left alone.
type unchangedRow struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
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
	for _, id := range ids {
		var found foundRow
		query := fmt.Sprintf("SELECT r.status, r.cancelled_at IS NOT NULL AS cancelled FROM %s AS r WHERE r.id = $1", r.quoted())
		err := r.db.reader.GetContext(ctx, &found, query, id)
		reason := ""
		switch {
		case errors.Is(err, sql.ErrNoRows):
			reason = "there is no such row"
		case err != nil:
			return err
		case r.settled(found):
			continue // a repetition
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

// allFailed changes the rows that had failed when it began, a page at a time: one that fails again
// meanwhile is not changed twice.
func (r *repair) allFailed(ctx context.Context, limit int) error {
	var now string
	if err := r.db.reader.GetContext(ctx, &now, "SELECT now()::text"); err != nil {
		return err
	}
	after := failedRow{At: "-infinity"}
	for limit == 0 || r.changed < limit {
		page, err := r.failedPage(ctx, after, now, limit)
		if err != nil || len(page) == 0 {
			return err
		}
		ids := make([]uuid.UUID, len(page))
		for i, row := range page {
			ids[i] = row.ID
		}
		changed, err := r.change(ids)
		if err != nil {
			return err
		}
		r.changed += len(changed)
		after = page[len(page)-1]
	}
	return nil
}

// A failedRow is a place in the index of failed rows.
type failedRow struct {
	At string    `db:"at"`
	ID uuid.UUID `db:"id"`
}

func (r *repair) failedPage(ctx context.Context, after failedRow, until string, limit int) (page []failedRow, err error) {
	size := repairBatch
	if limit > 0 {
		size = min(size, limit-r.changed)
	}
	query := fmt.Sprintf(`
		SELECT r.failed_at::text AS at, r.id
		FROM %s AS r
		WHERE r.failed_at IS NOT NULL AND r.failed_at <= $1::text::timestamptz AND (r.failed_at, r.id) > ($2::text::timestamptz, $3)
		ORDER BY r.failed_at, r.id
		LIMIT $4`, r.quoted())
	err = r.db.read(ctx, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &page, query, until, after.At, after.ID, size)
	})
	return page, err
}

// report prints what was done, also beside an error.
func (r *repair) report(err error, asJSON bool) error {
	a := r.db.app
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

func (r *repair) print(a *app, asJSON bool) error {
	if asJSON {
		if r.unchanged == nil {
			r.unchanged = []unchangedRow{}
		}
		return a.printJSON(map[string]any{"table": r.table.Name(), "changed": r.changed, "unchanged": r.unchanged})
	}
	for _, u := range r.unchanged {
		fmt.Fprintf(a.stderr, "txwork: %s was not %s: %s\n", u.ID, r.verb, u.Reason)
	}
	_, err := fmt.Fprintf(a.stdout, "%s of %s %s\n", plural(r.changed, "row"), r.table.Name(), r.verb)
	return err
}
