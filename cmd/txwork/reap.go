package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// defaultReapLimit is the default of the tables' SQL functions.
const defaultReapLimit = 1000

func newReapCommand(a *app) *cobra.Command {
	cmd := newCommand("reap [TABLE]...", "Requeue expired leases, sweep, and delete rows past their retention, once",
		cobra.ArbitraryArgs)
	limit := cmd.Flags().Int("limit", defaultReapLimit, "rows of each table, and of each of its sweeps, at most")
	noPurge := cmd.Flags().Bool("no-purge", false, "do not delete rows past their retention")
	asJSON := jsonFlag(cmd, reaped{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 || *limit > workqueue.MaxBatch {
			return usagef("--limit is %d, it must be between 1 and %d", *limit, workqueue.MaxBatch)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			all, err := d.reapAll(cmd.Context(), args, *limit, !*noPurge)
			switch {
			case err != nil && *asJSON && len(all) > 0:
				a.failed = reaped{Tables: all, Error: told(cmd.Context(), explain(err))}
			case err == nil && *asJSON:
				return a.printJSON(reaped{Tables: all})
			case !*asJSON && len(all) > 0:
				err = cmp.Or(err, a.printReaped(all))
			}
			return explain(err)
		})
	}
	return cmd
}

// reaped is what reap prints.
type reaped struct {
	Tables []reapedTable `json:"tables"`          // in the order of their names; after a failure, those that were begun
	Error  string        `json:"error,omitempty"` // why it ended early
}

// reapedTable is what one round did to one table.
type reapedTable struct {
	Table string `json:"table"` // with its schema
	workqueue.Reaped
	Swept        int  `json:"swept"`         // rows changed by the sweeps: deadlines of joins, keys that can continue, tombstones
	PurgedDone   int  `json:"purged_done"`   // done and cancelled rows past their retention
	PurgedFailed int  `json:"purged_failed"` // dead letters past their retention
	FoldBusy     bool `json:"fold_busy"`     // another session folds, so keys and joins are left to it
	More         bool `json:"more"`          // the limit was reached, so there may be more
}

// reapAll returns what was done, even if it also returns an error.
func (d *database) reapAll(ctx context.Context, names []string, limit int, purge bool) (all []reapedTable, err error) {
	all = []reapedTable{}
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return all, err
	}
	progress := d.app.newTally("reaped", "rows", -1)
	defer progress.end()
	rows := 0
	for _, t := range tables {
		r, err := d.reapTable(ctx, t, limit, purge)
		all = append(all, r)
		if err != nil {
			return all, err
		}
		rows += r.Requeued + r.Failed + r.Swept + r.PurgedDone + r.PurgedFailed
		progress.set(int64(rows))
	}
	return all, nil
}

// reapTable folds last, because all earlier steps may leave notes.
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
			r.PurgedDone, r.PurgedFailed = 0, 0 // nothing was committed
			return r, fmt.Errorf("deleting from %s what is past its retention: %w", t.Name(), err)
		}
	}
	if _, r.FoldBusy, err = t.On(d.pool).TryFold(ctx); err != nil {
		return r, fmt.Errorf("folding %s: %w", t.Name(), err)
	}
	r.More = r.Requeued+r.Failed == limit || max(r.Swept, r.PurgedDone, r.PurgedFailed) >= limit
	if err = d.noteMaintained(ctx, t); err != nil {
		return r, fmt.Errorf("noting that %s was maintained: %w", t.Name(), err)
	}
	return r, nil
}

// noteMaintained records when the table was maintained, for doctor, the gauges and reapers. A schema that only has the
// application's own tables has no function to record it. A role without the privilege has done everything else.
func (d *database) noteMaintained(ctx context.Context, t *workqueue.Table) error {
	note := pgx.Identifier{t.Spec().Schema, "leader_note"}.Sanitize()
	_, err := d.pool.Exec(ctx, "SELECT "+note+"($1)", t.Name())
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return err
	case pg.Code == "42883": // undefined_function
		return nil
	case pg.Code == "42501": // insufficient_privilege
		d.app.logger().Warn("the role may not note that the table was maintained, so txwork doctor does not know",
			"table", t.Name(), "error", err)
		return nil
	}
	return err
}

// reap calls the table's own function, because it has the backoff of the migration that created the table, which this
// command does not know.
func (d *database) reap(ctx context.Context, t *workqueue.Table, limit int) (r workqueue.Reaped, err error) {
	err = d.callFunction(ctx, t, "reap_expired", "requeued, failed", limit, &r.Requeued, &r.Failed)
	if err != nil {
		return workqueue.Reaped{}, err // nothing was committed
	}
	return r, nil
}

// callFunction calls one of the table's functions and reads the row that it returns.
func (d *database) callFunction(ctx context.Context, t *workqueue.Table, name, columns string, limit int,
	into ...any) error {
	function := pgx.Identifier{t.Spec().Schema, t.Spec().Table + "_" + name}.Sanitize()
	return d.write(ctx, func(tx workqueue.Tx) error {
		row := func(scan func(dest ...any) error) error { return scan(into...) }
		return tx.Query(ctx, row, "SELECT "+columns+" FROM "+function+"($1)", limit)
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
