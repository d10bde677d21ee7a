package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/workqueue"
)

const deletedTable = "deleted"

// deletedSpec is a table for jobs without the columns that only package jobs needs.
var deletedSpec = workqueue.Spec{
	Table:      deletedTable,
	Columns:    workqueue.ColumnsOf((*columns).list),
	DeleteDone: true,
}

func deletedDDL() (up, down string, err error) { return deletedSpec.DDL() }

// deleted is a session on rows that are deleted when they are acked.
type deleted struct {
	pool    *pgxpool.Pool
	rows    *workqueue.Table
	options workqueue.WorkerOptions
}

func openDeleted(pool *pgxpool.Pool, o workqueue.WorkerOptions) (*deleted, error) {
	rows, err := workqueue.Open(deletedSpec, workqueue.Telemetry{})
	return &deleted{pool: pool, rows: rows, options: o}, err
}

func (d *deleted) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	rows := make([]workqueue.NewRow, len(bodies))
	for i, b := range bodies {
		args, err := json.Marshal(b)
		if err != nil {
			return err
		}
		rows[i].Values = []any{noop{}.Kind(), args}
	}
	return workqueue.InTx(ctx, d.pool, func(tx workqueue.Tx) error {
		_, err := d.rows.Insert(ctx, tx, rows...)
		return err
	})
}

func (d *deleted) InsertOne(ctx context.Context, body protocol.Body) error {
	return d.InsertMany(ctx, []protocol.Body{body})
}

// columns are the domain columns of a row, as its handler gets them.
type columns struct {
	kind string
	args []byte
}

func (r *columns) list(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "kind", Type: "text", NotNull: true}, &r.kind)
	c.Field(workqueue.Column{Name: "args", Type: "bytea", NotNull: true}, &r.args)
}

func (d *deleted) Work(ctx context.Context, handled func()) error {
	domain := workqueue.Domain[columns]{Table: d.rows, Columns: (*columns).list}
	handler := func(_ context.Context, c *workqueue.Claim[columns]) error {
		var body protocol.Body
		if err := json.Unmarshal(c.Body.args, &body); err != nil {
			return err
		}
		handled()
		return nil
	}
	worker, err := workqueue.NewWorker(d.pool, domain, handler, d.options)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func (d *deleted) Close() { d.pool.Close() }
