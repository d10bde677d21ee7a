package periodic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// MaxWait is how long a change of a schedule waits for another transaction that holds it, unless the application has
// set a lock_timeout of its own. Even a frozen scheduler cannot hold a schedule that long.
const MaxWait = 15 * time.Second

// A LockedError says that a schedule could not be changed because another transaction has locked it and has not ended
// in time. Your transaction has failed: roll it back, and try again when the other one has ended.
type LockedError struct {
	Schedule string
	PID      int    // of the server process that has locked it; 0 if unknown
	Holder   string // what is known of that process
	cause    error
}

func (e *LockedError) Error() string {
	who := "by a transaction that has not ended, which may be creating it"
	if e.PID != 0 {
		who = fmt.Sprintf("by process %d (%s); pg_terminate_backend(%d) ends it", e.PID, e.Holder, e.PID)
	}
	return fmt.Sprintf("txwork: schedule %q is locked %s: roll back, and try again: %v", e.Schedule, who, e.cause)
}

func (e *LockedError) Unwrap() error { return e.cause }

// find locks a schedule until the transaction ends.
func (p *Plan) find(ctx context.Context, tx workqueue.Tx, name string) (row, error) {
	if err := checkName(name); err != nil {
		return row{}, err
	}
	found, err := p.one(ctx, tx, p.statements.try, name)
	if err == workqueue.ErrNotFound {
		found, err = p.await(ctx, tx, name)
	}
	return found, notFound(name, err)
}

// await locks a schedule that another transaction holds, or returns that it does not exist.
func (p *Plan) await(ctx context.Context, tx workqueue.Tx, name string) (found row, err error) {
	locked := &LockedError{Schedule: name}
	exists := workqueue.ErrNotFound
	err = p.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		exists = nil
		return scan(&locked.PID, &locked.Holder)
	}, p.statements.holder, name)
	if err == nil {
		err = exists
	}
	if err != nil {
		return row{}, err
	}
	err = p.bounded(ctx, tx, locked, func() (err error) {
		found, err = p.one(ctx, tx, p.statements.find, name)
		return err
	})
	return found, err
}

// bounded runs a function that may wait for another transaction, for at most [MaxWait].
func (p *Plan) bounded(ctx context.Context, tx workqueue.Tx, locked *LockedError, wait func() error) error {
	var own, ours string
	err := p.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&own, &ours) },
		p.statements.limit, fmt.Sprintf("%dms", MaxWait.Milliseconds()))
	if err != nil {
		return err
	}
	if err = wait(); isLockTimeout(err) {
		locked.cause = err
		return locked
	}
	if err != nil && err != workqueue.ErrNotFound {
		return err
	}
	_, restore := p.table.In(tx).Exec(ctx, "SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true)", own)
	return errors.Join(err, restore)
}

// isLockTimeout recognizes the error of every driver that reports the SQLSTATE.
func isLockTimeout(err error) bool {
	var pg interface{ SQLState() string }
	return errors.As(err, &pg) && pg.SQLState() == "55P03"
}

// load reads the current version of the schedule that a scheduler has claimed, which may be newer than the claim.
func (p *Plan) load(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (found row, version string, err error) {
	err = workqueue.ErrNotFound
	readErr := p.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		found, err = scanRow(func(dest ...any) error { return scan(append(dest, &version)...) })
		return cmp.Or(err, found.unreadable)
	}, p.statements.load, id)
	if readErr != nil {
		err = readErr
	}
	return found, version, err
}

// lock locks the schedule until the transaction ends, and returns whether it is still the version that load has read.
func (p *Plan) lock(ctx context.Context, tx workqueue.Tx, id uuid.UUID, version string) (same bool, err error) {
	err = workqueue.ErrNotFound
	readErr := p.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		err = nil
		return scan(&same)
	}, p.statements.lock, id, version)
	if readErr != nil {
		err = readErr
	}
	return same, err
}
