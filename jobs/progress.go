package jobs

import (
	"cmp"
	"context"
	"errors"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// SetProgress records how far the job is, in per cent, with a note of at most [MaxNote] bytes. Everybody sees
// it at once, see [Client.Get]. It costs a small write, so do not call it more often than somebody looks.
//
// If the lease was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) SetProgress(ctx context.Context, percent int, note string) error {
	if percent < 0 || percent > 100 {
		return validate.Errorf("progress", "is %d per cent, it must be between 0 and 100", percent)
	}
	if err := cmp.Or(validate.Size("note", len(note), MaxNote), validate.Text("note", note)); err != nil {
		return err
	}
	if d.claim == nil {
		return errNoWorker
	}
	return d.change(ctx, d.worker.db, d.worker.client.statements.progress, percent, note)
}

// Output records the job's output, encoded like args and in the place of what was recorded before. It is kept
// with the job even if the attempt fails later. Inside [Delivery.Tx] it is recorded with the settle, if and only
// if that commits; elsewhere at once.
//
// If the lease was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) Output(ctx context.Context, v any) error {
	if d.claim == nil {
		return errNoWorker
	}
	encoded, err := d.encode(ctx, outputField, v)
	if err != nil || d.postpone(encoded) {
		return err
	}
	return d.change(ctx, d.worker.db, d.worker.client.statements.output, encoded)
}

// postpone keeps an output for the end of the job's transaction: written earlier it would hold the job's row
// locked, and with it the renewals of its lease. False: no transaction is open.
func (d *Delivery) postpone(output []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inTx {
		d.output = output
	}
	return d.inTx
}

// setInTx says whether the job's transaction is open, and returns the output that was kept.
func (d *Delivery) setInTx(open bool) (output []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	output = d.output
	d.inTx, d.output = open, nil
	return output
}

// withOutput is fn with the output that it leaves. Where nothing can be committed, the core says so.
func (d *Delivery) withOutput(ctx context.Context, tx pgx.Tx, fn func(pgx.Tx) error) error {
	d.setInTx(true)
	defer d.setInTx(false)
	result := fn(tx)
	output := d.setInTx(false)
	var outcome *workqueue.Outcome
	commits := result == nil || errors.As(result, &outcome)
	if output == nil || !commits || tx.Conn().PgConn().TxStatus() != 'T' {
		return result
	}
	if err := d.change(ctx, tx, d.worker.client.statements.output, output); err != nil {
		return err
	}
	return result
}

// encode is a value as it is stored with the job.
func (d *Delivery) encode(ctx context.Context, field string, v any) ([]byte, error) {
	c := d.worker.client
	encoded, err := c.encode(ctx, d.owner, field, v)
	if err != nil {
		return nil, err
	}
	return encoded, validate.Size(field, len(encoded), c.maxArgs)
}

// database is what a pool and a transaction share.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// inTx runs fn in a READ COMMITTED transaction, or in a savepoint of that of [Worker.DrainIn].
func (w *Worker) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if outer, inside := w.db.(pgx.Tx); inside {
		return pgx.BeginFunc(ctx, outer, fn)
	}
	return pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, fn)
}

// change runs a statement that is guarded by the job's id and token, its first two parameters.
func (d *Delivery) change(ctx context.Context, db database, statement string, args ...any) error {
	tag, err := db.Exec(ctx, statement, append([]any{d.ID, d.claim.Token}, args...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = d.lost()
	}
	return err
}

// lost is the error of a guard that did not hold.
func (d *Delivery) lost() error {
	return &workqueue.SettleError{Table: d.worker.client.table.Name(), Lost: []uuid.UUID{d.ID}}
}
