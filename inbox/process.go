package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// ErrCommitUnknown says that the reply to a COMMIT was lost: whether the message was processed is unknown.
// Repeat the call: it answers [Duplicate] if it was.
var ErrCommitUnknown = errors.New("whether the transaction was committed is unknown; repeat: the inbox will say " +
	"Duplicate if it was")

// Process runs fn for a message unless it was processed before, and takes note of that in the transaction in
// which fn writes: both commit or neither does. See [Answer] for what it says, and what to do then.
//
// An error or a panic of fn rolls everything back, so that the message can be processed again; the error is
// returned as it is. Of any number of calls with the same key at the same time, in whatever processes, one
// runs fn; the others do not wait for it. Fn runs once and is never repeated, after a serialization failure
// neither. What it does outside of its transaction is at least once, as ever.
//
// The transaction is READ COMMITTED, whatever the session's default. A fn that ends it by a statement, as with
// tx.Exec(ctx, "ROLLBACK"), gets an error: repeated, the call says what was committed. If the reply to its COMMIT is
// lost, the error is an [ErrCommitUnknown].
func (b *Inbox) Process(ctx context.Context, pool *pgxpool.Pool, key Key, fn func(ctx context.Context,
	tx pgx.Tx) error) (Result, error) {
	switch {
	case pool == nil:
		return Result{}, validate.Errorf("pool", "is nil")
	case fn == nil:
		return Result{}, validate.Errorf("function", "is nil")
	}
	if err := b.checkKey(key); err != nil {
		return Result{}, err
	}
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

// abandon rolls back what was not committed, also while a panic of the handler passes by. It gives up a
// connection whose server has turned read-only, so that the pool finds the primary.
func abandon(conn *pgx.Conn, tx pgx.Tx, readOnly bool) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
	defer cancel()
	if readOnly {
		_ = conn.Close(ctx)
	}
	_ = tx.Rollback(ctx) // after a commit this does nothing
}

// commit tells what certainly was not committed from what may have been. The driver's own word for an error
// before anything was sent, SafeToRetry, cannot be used: a lost reply has it, too.
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

// refused reports the server's word that it did not commit. A server that ends the session (FATAL) may have
// committed before.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

// handlerTx keeps a handler from ending the transaction, which is not its own to end.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error {
	return errors.New("txwork: Process commits the transaction when the function returns nil")
}

func (handlerTx) Rollback(context.Context) error {
	return errors.New("txwork: Process rolls the transaction back when the function returns an error")
}
