package jobs

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// SetProgress records how far the job is, in per cent, with a note of at most [MaxNote] bytes. It is visible at once,
// see [Client.Get]. Each call is a small write, so do not call it more often than the progress is read.
//
// If the lease was lost, nothing is written, and the error is [workqueue.ErrLeaseLost].
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

// Output records the job's output, encoded like args. It replaces an output that was recorded before, and is kept with
// the job even if the attempt fails later. Inside [Delivery.Tx] it is recorded with the settle, if and only if that
// commits; elsewhere at once.
//
// If the lease was lost, nothing is written, and the error is [workqueue.ErrLeaseLost].
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

// postpone keeps an output for the end of the job's transaction, and returns false if none is open. Writing it earlier
// would lock the job's row, which would block the renewals of its lease.
func (d *Delivery) postpone(output []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inTx {
		d.output = output
	}
	return d.inTx
}

// setInTx notes whether the job's transaction is open, and returns the postponed output.
func (d *Delivery) setInTx(open bool) (output []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	output = d.output
	d.inTx, d.output = open, nil
	return output
}

// withOutput runs fn, and then writes the output that fn recorded if the transaction is going to commit. If the
// transaction cannot commit, the core reports that.
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

// encode returns a value in the form in which it is stored with the job, and checks its size.
func (d *Delivery) encode(ctx context.Context, field string, v any) ([]byte, error) {
	c := d.worker.client
	encoded, err := c.encode(ctx, d.owner, field, v)
	if err != nil {
		return nil, err
	}
	return encoded, validate.Size(field, len(encoded), cmp.Or(c.options.MaxArgs, DefaultMaxArgs))
}

// database is implemented by a pool and by a transaction.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// inTx runs fn in a READ COMMITTED transaction, or, under [Worker.DrainIn], in a savepoint of its transaction.
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

// lost returns the error for a statement whose guard did not hold, because the lease was lost.
func (d *Delivery) lost() error {
	return &workqueue.SettleError{Table: d.worker.client.table.Name(), Lost: []uuid.UUID{d.ID}}
}
