package join_test

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A checkout reserves stock and charges a card concurrently. When both are done, the order is shipped. If one fails,
// the on-fail row compensates for the other.
func ExampleJoins_Start() {
	spec := workqueue.Spec{
		Table: "tasks",
		Columns: []workqueue.Column{
			{Name: "kind", Type: "text", NotNull: true},
			join.Column,
		},
		Sweeps: []string{join.Sweep},
	}
	step := func(kind string) workqueue.NewRow { return workqueue.NewRow{Values: []any{kind, true}} }
	next := func(kind string) workqueue.NewRow {
		return workqueue.NewRow{Values: []any{kind, false}, Waiting: true}
	}

	checkout := func(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table, joins *join.Joins) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			rows, err := table.Insert(ctx, workqueue.Pgx(tx), step("reserve"), step("charge"), next("ship"),
				next("compensate"))
			if err != nil {
				return err
			}
			_, err = joins.Start(ctx, workqueue.Pgx(tx), join.Join{
				Label:      "checkout 7",
				Members:    []uuid.UUID{rows[0].ID, rows[1].ID},
				OnComplete: rows[2].ID,
				OnFail:     rows[3].ID,
				Policy:     join.WaitAll,
			})
			return err
		})
	}

	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		panic(err)
	}
	joins, err := join.Open(table)
	if err != nil {
		panic(err)
	}
	_, _ = checkout, joins
}
