package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// ErrCommitUnknown says that the reply to a COMMIT was lost: whether the message was processed is unknown.
// Repeat the call: it answers [Duplicate] if it was.
var ErrCommitUnknown = errors.New("whether the transaction was committed is unknown; repeat: the inbox will say " +
	"Duplicate if it was")

// Process runs fn for a message unless the message was processed before. It records the message in the transaction in
// which fn writes: both commit or neither does. [Answer] lists the possible results, and what to do with each.
//
// An error or a panic of fn rolls everything back, so that the message can be processed again. The error is returned
// unchanged. Of several concurrent calls with the same key, in any number of processes, one runs fn, and the others do
// not wait for it. Process calls fn once and never repeats it, not even after a serialization failure. Effects outside
// the transaction happen at least once.
//
// The transaction is READ COMMITTED, whatever the session's default. If fn ends it by a statement, such as tx.Exec(ctx,
// "ROLLBACK"), Process returns an error; repeat the call to find out what was committed. If the reply to the COMMIT is
// lost, the error is an [ErrCommitUnknown].
//
// The call has a span, a child of the one in ctx, which fn's context carries; metrics count the answers, see
// [workqueue.Table.ProcessArrival]. A key that is refused has neither.
func (b *Inbox) Process(ctx context.Context, pool *pgxpool.Pool, key Key, fn func(ctx context.Context,
	tx pgx.Tx) error) (result Result, err error) {
	switch {
	case pool == nil:
		return Result{}, validate.Errorf("pool", "is nil")
	case fn == nil:
		return Result{}, validate.Errorf("function", "is nil")
	}
	if err := b.checkKey(key); err != nil {
		return Result{}, err
	}
	err = b.table.ProcessArrival(ctx, key.values(), func(ctx context.Context) (uuid.UUID, string, error) {
		result, err = b.processIn(ctx, pool, key, fn)
		return result.ID, result.Answer.String(), err
	})
	return result, err
}

// processIn is Process without its telemetry.
func (b *Inbox) processIn(ctx context.Context, pool *pgxpool.Pool, key Key, fn func(ctx context.Context,
	tx pgx.Tx) error) (Result, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Result{}, err
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginText(id)})
	if err != nil {
		return Result{}, fmt.Errorf("txwork: opening the handler's transaction: %w", err)
	}
	conn, readOnly := tx.Conn(), false
	defer func() { abandon(conn, tx, readOnly) }()
	result, err := b.begin(ctx, workqueue.Pgx(tx), id, key)
	if err != nil || result.Answer != Processed {
		readOnly = errors.Is(err, workqueue.ErrReadOnly)
		return result, err
	}
	if err := fn(ctx, handlerTx{tx}); err != nil {
		return Result{}, err
	}
	if err := checkBegun(ctx, tx, id); err != nil {
		return Result{}, err
	}
	if err := commit(ctx, tx); err != nil {
		return Result{}, err
	}
	return result, nil
}

// rollbackLimit bounds a rollback on a connection that does not answer.
const rollbackLimit = time.Second

// abandon rolls back a transaction that was not committed, also during a panic of the handler. It closes a connection
// to a server that has become read-only, so that the pool connects to the new primary.
func abandon(conn *pgx.Conn, tx pgx.Tx, readOnly bool) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
	defer cancel()
	if readOnly {
		_ = conn.Close(ctx)
	}
	_ = tx.Rollback(ctx) // after a commit this does nothing
}

// commit distinguishes transactions that were certainly not committed from those that may have been. It does not use
// pgconn.SafeToRetry, which is meant for errors before anything was sent, but is also true when the reply was lost.
func commit(ctx context.Context, tx pgx.Tx) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("txwork: the handler's transaction is rolled back: %w", err)
	}
	if tx.Conn().IsClosed() {
		return fmt.Errorf("txwork: the handler's transaction is rolled back: %w", pgconn.ErrConnClosed)
	}
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return errors.New("txwork: a statement of the handler's transaction failed and its error was not returned: " +
			"everything is rolled back")
	case refused(err):
		return fmt.Errorf("txwork: committing the handler's transaction: %w", err)
	}
	return fmt.Errorf("txwork: committing the handler's transaction: %w: %w", ErrCommitUnknown, err)
}

// refused reports whether the server said that it did not commit. A server that ends the session (FATAL) may have
// committed before.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

// handlerTx prevents a handler from ending the transaction, which Process commits or rolls back.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error {
	return errors.New("txwork: Process commits the transaction when the function returns nil")
}

func (handlerTx) Rollback(context.Context) error {
	return errors.New("txwork: Process rolls the transaction back when the function returns an error")
}
