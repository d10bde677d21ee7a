package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// defaultReapLimit is that of the tables' SQL functions.
const defaultReapLimit = 1000

func newReapCommand(a *app) *cobra.Command {
	cmd := newCommand("reap [TABLE]...", "Requeue expired leases, sweep, and delete rows past their retention, once",
		cobra.ArbitraryArgs)
	limit := cmd.Flags().Int("limit", defaultReapLimit, "rows of each table, and of each of its sweeps, at most")
	noPurge := cmd.Flags().Bool("no-purge", false, "do not delete rows past their retention")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 || *limit > workqueue.MaxBatch {
			return usagef("--limit is %d, it must be between 1 and %d", *limit, workqueue.MaxBatch)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			all, err := d.reapAll(cmd.Context(), args, *limit, !*noPurge)
			if err != nil {
				return explain(err)
			}
			if *asJSON {
				return a.printJSON(map[string]any{"tables": all})
			}
			return a.printReaped(all)
		})
	}
	return cmd
}

// reapedTable is what one round did to one table.
type reapedTable struct {
	Table string `json:"table"`
	workqueue.Reaped
	Swept        int  `json:"swept"`
	PurgedDone   int  `json:"purged_done"`
	PurgedFailed int  `json:"purged_failed"`
	FoldBusy     bool `json:"fold_busy"` // another session folds, so keys and joins are left to it
	More         bool `json:"more"`      // the limit was reached, so there may be more
}

func (d *database) reapAll(ctx context.Context, names []string, limit int, purge bool) ([]reapedTable, error) {
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return nil, err
	}
	all := make([]reapedTable, len(tables))
	for i, t := range tables {
		if all[i], err = d.reapTable(ctx, t, limit, purge); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// reapTable folds last, since everything before may leave notes.
func (d *database) reapTable(ctx context.Context, t *workqueue.Table, limit int, purge bool) (r reapedTable,
	err error) {
	r.Table = t.Name()
	if r.Reaped, err = d.reap(ctx, t, limit); err != nil {
		return r, fmt.Errorf("reaping %s: %w", t.Name(), err)
	}
	if r.Swept, err = t.On(d.pool).Sweep(ctx, limit); err != nil {
		return r, fmt.Errorf("sweeping %s: %w", t.Name(), err)
	}
	if purge {
		if err = d.callFunction(ctx, t, "purge", "done, failed", limit, &r.PurgedDone, &r.PurgedFailed); err != nil {
			return r, fmt.Errorf("deleting from %s what is past its retention: %w", t.Name(), err)
		}
	}
	if _, r.FoldBusy, err = t.On(d.pool).TryFold(ctx); err != nil {
		return r, fmt.Errorf("folding %s: %w", t.Name(), err)
	}
	r.More = r.Requeued+r.Failed == limit || max(r.Swept, r.PurgedDone, r.PurgedFailed) >= limit
	return r, nil
}

// reap calls the table's own function: the backoff is that of the migration which made the table, and
// this command does not know it.
func (d *database) reap(ctx context.Context, t *workqueue.Table, limit int) (r workqueue.Reaped, err error) {
	err = d.callFunction(ctx, t, "reap_expired", "requeued, failed", limit, &r.Requeued, &r.Failed)
	return r, err
}

// callFunction calls one of the table's functions and reads its row. READ COMMITTED is said because their guards rely
// on it.
func (d *database) callFunction(ctx context.Context, t *workqueue.Table, name, columns string, limit int,
	into ...any) error {
	function := pgx.Identifier{t.Spec().Schema, t.Spec().Table + "_" + name}.Sanitize()
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return pgx.BeginTxFunc(ctx, d.pool, options, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT "+columns+" FROM "+function+"($1)", limit).Scan(into...)
	})
}

func (a *app) printReaped(all []reapedTable) error {
	g := newGrid(a.stdout, "TABLE", "REQUEUED", "FAILED", "SWEPT", "PURGED", "")
	for _, r := range all {
		var notes []string
		if r.More {
			notes = append(notes, "limit reached, run it again")
		}
		if r.FoldBusy {
			notes = append(notes, "another session folds, keys and joins are left to it")
		}
		g.add(r.Table, fmt.Sprint(r.Requeued), fmt.Sprint(r.Failed), fmt.Sprint(r.Swept),
			fmt.Sprint(r.PurgedDone+r.PurgedFailed), strings.Join(notes, "; "))
	}
	return g.flush()
}
