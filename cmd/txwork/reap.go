package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// defaultReapLimit is that of the tables' SQL functions.
const defaultReapLimit = 1000

func newReapCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reap [TABLE]...",
		Short: "Take rows whose lease has ended from their owners, and sweep, once",
		Long: `Take rows whose lease has ended from their owners: they become ready again with the table's backoff or, where
their attempts are used up, failed. Then do what else the tables of txwork have to have done now and then:
deadlines of joins, keys that may go on, tombstones of the inbox. One round over the named tables, or over all
of the schema. It is safe to run anywhere and any number of times, from cron for example, beside the reapers of
applications.`,
		Args: cobra.ArbitraryArgs,
	}
	limit := cmd.Flags().Int("limit", defaultReapLimit, "rows of each table, and of each of its sweeps, at most")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 || *limit > workqueue.MaxBatch {
			return usagef("--limit is %d, it must be between 1 and %d", *limit, workqueue.MaxBatch)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			all, err := d.reapAll(cmd.Context(), args, *limit)
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
	Swept int  `json:"swept"`
	More  bool `json:"more"` // the limit was reached, so there may be more
}

func (d *database) reapAll(ctx context.Context, names []string, limit int) ([]reapedTable, error) {
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return nil, err
	}
	all := make([]reapedTable, len(tables))
	for i, t := range tables {
		r, err := d.reap(ctx, t, limit)
		if err != nil {
			return nil, fmt.Errorf("reaping %s: %w", t.Name(), err)
		}
		swept, err := t.On(d.pool).Sweep(ctx, limit)
		if err != nil {
			return nil, fmt.Errorf("sweeping %s: %w", t.Name(), err)
		}
		all[i] = reapedTable{Table: t.Name(), Reaped: r, Swept: swept, More: r.Requeued+r.Failed == limit || swept >= limit}
	}
	return all, nil
}

// reap calls the table's own function: the backoff is that of the migration which made the table, and
// this command does not know it. READ COMMITTED is said because the function's guards rely on it.
func (d *database) reap(ctx context.Context, t *workqueue.Table, limit int) (r workqueue.Reaped, err error) {
	spec := t.Spec()
	query := fmt.Sprintf("SELECT requeued, failed FROM %s($1)", pgx.Identifier{spec.Schema, spec.Table + "_reap_expired"}.Sanitize())
	err = pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, query, limit).Scan(&r.Requeued, &r.Failed)
	})
	return r, err
}

func (a *app) printReaped(all []reapedTable) error {
	g := newGrid(a.stdout, "TABLE", "REQUEUED", "FAILED", "SWEPT", "")
	for _, r := range all {
		note := ""
		if r.More {
			note = "limit reached, run it again"
		}
		g.add(r.Table, fmt.Sprint(r.Requeued), fmt.Sprint(r.Failed), fmt.Sprint(r.Swept), note)
	}
	return g.flush()
}
