package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// begunSetting is the setting in which [Inbox.Process] stores the id of the message's row, to mark its transaction. The
// setting is local to the transaction. If a statement of the handler, such as ROLLBACK, ends the transaction, the mark
// is gone, even if the handler then begins another one. So it is after RESET ALL.
const begunSetting = "txwork.inbox_tx"

var (
	errTxEnded = errors.New("txwork: the transaction of Process was ended by the handler, with ROLLBACK or COMMIT: " +
		"to undo the writes, return an error")

	// errTxUnmarked does not say which of its causes it was, because the server does not tell.
	errTxUnmarked = errors.New("txwork: the handler's transaction has lost the mark of Process: it was ended by the " +
		"handler, which began another one, or its settings were reset, as RESET ALL does: to undo the writes, return " +
		"an error")
)

// beginText returns the statements that begin a handler's transaction, whatever the session's defaults are, and mark
// it. They are sent in one round trip.
func beginText(id uuid.UUID) string {
	return fmt.Sprintf("begin isolation level read committed read write;"+
		" select pg_catalog.set_config('%s', '%s', true)", begunSetting, id)
}

// checkBegun returns an error if the handler has ended the transaction that Process began. A transaction in which a
// statement failed cannot be queried, so it passes here: its commit reports the failure.
func checkBegun(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	switch tx.Conn().PgConn().TxStatus() {
	case 'I':
		return errTxEnded
	case 'E':
		return nil
	}
	var mark string
	if err := tx.QueryRow(ctx, "SELECT coalesce(pg_catalog.current_setting($1, true), '')", begunSetting).Scan(&mark); err != nil {
		return fmt.Errorf("txwork: the handler's transaction is rolled back: %w", err)
	}
	if mark != id.String() {
		return errTxUnmarked
	}
	return nil
}
