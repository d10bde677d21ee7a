package inboxhttp

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// passing are the classes of SQLSTATE that say nothing about the statement: connections, transactions that were rolled
// back for others, resources, and an operator's intervention.
var passing = []string{"08", "40", "53", "57"}

// unavailable tells that a function failed because of the database, and not of itself.
func unavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(pg.Code) == 5 {
		return slices.Contains(passing, pg.Code[:2])
	}
	return errors.As(err, new(*pgconn.ConnectError)) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, workqueue.ErrReadOnly)
}
