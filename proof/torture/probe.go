//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

const (
	probeName = "probe"
	probeRows = 1000
)

// probe lets a worker handle all rows of a table of its own, and returns how many pages of it and its indexes were read
// for each row. PostgreSQL counts them independently of the machine's speed.
func (l *lab) probe(ctx context.Context) (pages float64, err error) {
	spec := workqueue.Spec{Schema: l.schema, Table: probeName}
	table, err := workqueue.Open(spec, quiet())
	if err != nil {
		return 0, err
	}
	up, down, err := spec.DDL()
	if err != nil {
		return 0, err
	}
	if _, err := l.admin.Exec(ctx, up, pgx.QueryExecModeSimpleProtocol); err != nil {
		return 0, err
	}
	err = l.workOff(ctx, table)
	var read int64
	if err == nil {
		read, err = l.pagesRead(ctx)
	}
	_, dropped := l.admin.Exec(ctx, down, pgx.QueryExecModeSimpleProtocol)
	return float64(read) / probeRows, errors.Join(err, dropped)
}

// workOff writes the rows and lets a worker handle them. Its sessions have ended when it returns.
func (l *lab) workOff(ctx context.Context, table *workqueue.Table) error {
	pool, err := l.open(ctx, probeName, 4, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := table.Insert(ctx, workqueue.Pgx(tx), make([]workqueue.NewRow, probeRows)...)
		return err
	})
	if err != nil {
		return err
	}
	return handleAll(ctx, pool, table)
}

// handleAll runs a worker with a no-op handler until every row of the probe is handled. All rows exist beforehand.
func handleAll(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	domain := workqueue.Domain[struct{}]{Table: table}
	w, err := workqueue.NewWorker(pool, domain, func(context.Context, *workqueue.Claim[struct{}]) error {
		if handled.Add(1) == probeRows {
			stop() // rows in progress are still settled
		}
		return nil
	}, workqueue.WorkerOptions{Concurrency: handlersEach, NoListen: true})
	if err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return err
	}
	if n := handled.Load(); n < probeRows {
		return fmt.Errorf("%d of %d rows of a probe were handled: %w", n, probeRows, context.Cause(ctx))
	}
	return nil
}

// pagesRead waits for the probe's sessions to end, because they report what they have read only then.
func (l *lab) pagesRead(ctx context.Context) (n int64, err error) {
	for open := 1; open > 0; time.Sleep(retryBase) {
		const sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'run " + probeName + "'"
		if err := l.admin.QueryRow(ctx, sessions).Scan(&open); err != nil {
			return 0, err
		}
	}
	const read = `
		SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
		FROM pg_statio_user_tables WHERE schemaname = $1 AND relname = $2`
	err = l.admin.QueryRow(ctx, read, l.schema, probeName).Scan(&n)
	return n, err
}
