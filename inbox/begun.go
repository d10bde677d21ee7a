package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// begunSetting marks the transaction that [Inbox.Process] has begun with the id of the message's row. It is local to
// the transaction: a statement of the handler that ends it, such as ROLLBACK, takes the mark away, whatever it begins
// afterwards.
const begunSetting = "txwork.inbox_tx"

var errTxEnded = errors.New("txwork: the transaction of Process was ended by the handler, with ROLLBACK or COMMIT: " +
	"to undo the writes, return an error")

// beginText begins a handler's transaction, whatever the session's defaults, and marks it, in one round trip.
func beginText(id uuid.UUID) string {
	return fmt.Sprintf("begin isolation level read committed read write;"+
		" select set_config('%s', '%s', true)", begunSetting, id)
}

// checkBegun refuses a transaction that is not the one that was begun. One in which a statement failed can answer
// nothing, and is refused by its commit.
func checkBegun(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	switch tx.Conn().PgConn().TxStatus() {
	case 'I':
		return errTxEnded
	case 'E':
		return nil
	}
	var mark string
	if err := tx.QueryRow(ctx, "SELECT coalesce(current_setting($1, true), '')", begunSetting).Scan(&mark); err != nil {
		return fmt.Errorf("txwork: the handler's transaction is rolled back: %w", err)
	}
	if mark != id.String() {
		return errTxEnded
	}
	return nil
}
