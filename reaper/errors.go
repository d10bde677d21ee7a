package reaper

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// ErrNotLeader says that the leadership of a table was lost in the course of a round: another reaper has a newer term.
// The batches that were counted are committed, the one that found out changed nothing. Other tables are not affected.
var ErrNotLeader = errors.New("txwork: reaper: no longer the leader")

var errPanicked = errors.New("panic")

// isOutage tells an error that everything would meet from one of a round or of a table.
func isOutage(err error) bool {
	for _, other := range []error{errPanicked, ErrNotLeader, workqueue.ErrInvalid, workqueue.ErrSchemaVersion} {
		if errors.Is(err, other) {
			return false
		}
	}
	return outage.Is(err)
}

// explain adds what to do to the errors of the election's own statements that have a known remedy. The
// errors of a table's operations come explained from workqueue.
func explain(err error) error {
	if errors.Is(err, workqueue.ErrReadOnly) || errors.Is(err, workqueue.ErrSchemaVersion) {
		return err
	}
	return postgres.Sentinels{
		ReadOnly: workqueue.ErrReadOnly, PoolMode: workqueue.ErrPoolMode, SchemaVersion: workqueue.ErrSchemaVersion,
	}.Explain(err)
}

// concernsTable tells an error that one table's work met from one that every table would meet.
func concernsTable(err error) bool {
	if errors.Is(err, workqueue.ErrReadOnly) {
		return false
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, ErrNotLeader) || errors.Is(err, workqueue.ErrInvalid) ||
		errors.Is(err, workqueue.ErrSchemaVersion)
}
