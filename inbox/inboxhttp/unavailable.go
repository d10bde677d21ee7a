package inboxhttp

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// passing lists the SQLSTATE classes of transient errors, which the statement did not cause: connection failures,
// rollbacks due to other transactions, insufficient resources, and an operator's intervention.
var passing = []string{"08", "40", "53", "57"}

// unavailable reports whether a function failed because the database was unavailable, and not because of itself.
func unavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && len(pg.Code) == 5 {
		return slices.Contains(passing, pg.Code[:2])
	}
	return errors.As(err, new(*pgconn.ConnectError)) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, workqueue.ErrReadOnly)
}
