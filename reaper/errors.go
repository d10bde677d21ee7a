package reaper

import (
	"errors"
	"fmt"
	"runtime/debug"

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

// ErrSkipped says that rows could not be processed, for example because a foreign key of the application keeps them
// from being deleted. All other rows were processed. [TableReport.Rows] names the rows.
var ErrSkipped = errors.New("txwork: reaper: rows were skipped")

var errPanicked = errors.New("panic")

// errHidden is why a table is not served although no other reaper leads it.
var errHidden = errors.New("txwork: reaper: row-level security hides rows from the role, so it does not maintain all")

// isOutage reports whether the database is unavailable, which is not a failure of one round or of one table.
func isOutage(err error) bool {
	for _, other := range []error{errPanicked, errHidden, ErrNotLeader, workqueue.ErrInvalid,
		workqueue.ErrSchemaVersion} {
		if errors.Is(err, other) {
			return false
		}
	}
	return outage.Is(err)
}

// explain adds the remedy, if one is known, to errors of this package's own statements. Package workqueue explains the
// errors of a table's operations.
func explain(err error) error {
	if errors.Is(err, workqueue.ErrReadOnly) || errors.Is(err, workqueue.ErrSchemaVersion) ||
		errors.Is(err, workqueue.ErrPoolMode) {
		return err
	}
	return postgres.Sentinels{
		ReadOnly: workqueue.ErrReadOnly, PoolMode: workqueue.ErrPoolMode, SchemaVersion: workqueue.ErrSchemaVersion,
		Session: workqueue.ErrSession,
	}.Explain(err)
}

// concernsTable reports whether an error concerns one table only. Any other error would occur for every table.
func concernsTable(err error) bool {
	if errors.Is(err, workqueue.ErrReadOnly) || errors.Is(err, workqueue.ErrSession) {
		return false
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, errPanicked) || errors.Is(err, errTooManySkipped) ||
		errors.Is(err, ErrNotLeader) || errors.Is(err, workqueue.ErrInvalid) ||
		errors.Is(err, workqueue.ErrSchemaVersion)
}

// unable reports whether the error of a table may be this process's own, so that another one can serve the table: its
// role lacks a right, its version does not fit the schema, or its program panics.
func unable(err error) bool {
	for _, own := range []error{errPanicked, workqueue.ErrInvalid, workqueue.ErrSchemaVersion} {
		if errors.Is(err, own) {
			return true
		}
	}
	return postgres.IsOwn(err)
}

// errTooManySkipped ends a kind of work in which more rows are in the way than one round skips.
var errTooManySkipped = fmt.Errorf("more than %d rows are in the way; the rows behind them wait", workqueue.MaxSkipped)

// mayBeRows reports whether a batch may have failed because of some of its rows.
func mayBeRows(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	if !ok || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "08", "25", "40", "53", "57", "58":
		return false
	}
	return true
}

// endsTable reports whether the other kinds of work on a table would fail for the same reason, or wait as long.
func endsTable(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return !ok && !errors.Is(err, errTooManySkipped) || ok && (pg.Code == "55P03" || pg.Code == "57014")
}

// contained turns a panic, for example in one of the pool's hooks, into an error, because it must not end the program
// in which the reaper runs.
func contained(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("txwork: reaper: %w: %v\n%s", errPanicked, p, debug.Stack())
	}
}
