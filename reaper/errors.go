package reaper

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// ErrNotLeader says that the leadership of a table was lost during a round: another reaper has a newer term. The
// batches that were counted are committed; the batch that detected the loss changed nothing. Other tables are not
// affected.
var ErrNotLeader = errors.New("txwork: reaper: no longer the leader")

var errPanicked = errors.New("panic")

// isOutage reports whether the database is unavailable, which is not a failure of one round or of one table.
func isOutage(err error) bool {
	for _, other := range []error{errPanicked, ErrNotLeader, workqueue.ErrInvalid, workqueue.ErrSchemaVersion} {
		if errors.Is(err, other) {
			return false
		}
	}
	return outage.Is(err)
}

// explain adds the remedy, if one is known, to errors of this package's own statements. Package workqueue explains the
// errors of a table's operations.
func explain(err error) error {
	if errors.Is(err, workqueue.ErrReadOnly) || errors.Is(err, workqueue.ErrSchemaVersion) {
		return err
	}
	pg, ok := contain.As[*pgconn.PgError](err)
	if ok && pg.Code == "42P01" && strings.Contains(pg.Message, leaderTable) { // undefined_table
		return fmt.Errorf("txwork: %w: the tables of the domain reaper are missing: run `txwork migrate up`, or take "+
			"them into your own migrations with `txwork migrate export --domain reaper DIR`: %w", workqueue.ErrSchemaVersion,
			err)
	}
	return postgres.Sentinels{
		ReadOnly: workqueue.ErrReadOnly, PoolMode: workqueue.ErrPoolMode, SchemaVersion: workqueue.ErrSchemaVersion,
	}.Explain(err)
}

// concernsTable reports whether an error concerns one table only. Any other error would occur for every table.
func concernsTable(err error) bool {
	if errors.Is(err, workqueue.ErrReadOnly) {
		return false
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, ErrNotLeader) || errors.Is(err, workqueue.ErrInvalid) ||
		errors.Is(err, workqueue.ErrSchemaVersion)
}
