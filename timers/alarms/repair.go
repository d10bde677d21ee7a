package alarms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// repairs calls Repair at intervals until ctx is cancelled. It logs an error again only when it changes.
func (d *Dispatcher) repairs(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		n, err := d.repairSafely(ctx)
		if n > 0 {
			d.logger.WarnContext(ctx, "alarms without a timer that could fire were repaired", slog.Int("alarms", n))
		}
		if text := fmt.Sprint(err); ctx.Err() == nil && text != last {
			if last = text; err != nil {
				d.logger.WarnContext(ctx, "alarms without a timer could not be repaired", slog.Any("error", err))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(repairInterval):
		}
	}
}

// repairSafely turns a panic, for example in a hook of the pool, into an error, so that it does not end the program.
func (d *Dispatcher) repairSafely(ctx context.Context) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return d.Repair(ctx)
}

// repairPage is how many alarms are looked up at once.
const repairPage = 100

// Repair repairs due alarms that no timer would fire, and returns how many. There are three causes: the last delivery
// died with its process; the timer was cancelled or failed without its alarm; or the alarm was not written by this
// package, but for example copied from another table. Each alarm is repaired in a transaction of its own, so one that
// cannot be repaired does not delay the others; its error is returned at the end. You can call Repair from any process,
// any number of times. [Dispatcher.Run] calls it every five seconds. Its cost depends on the number of alarms that are
// due.
func (d *Dispatcher) Repair(ctx context.Context) (n int, err error) {
	var refused refusals
	var last position
	for {
		page, err := d.store.stranded(ctx, last)
		if err != nil {
			return n, err
		}
		for _, last = range page {
			repaired, err := d.store.repairOne(ctx, last.id)
			if refused.note(last.id, err); err != nil && !ofRow(err) {
				return n, err
			}
			if repaired {
				n++
			}
		}
		if len(page) < repairPage {
			return n, refused.err()
		}
	}
}

// A position is the place of an alarm in the order of due alarms.
type position struct {
	at time.Time
	id uuid.UUID
}

// ofRow reports whether an error concerns one row only, so that other rows can still be repaired.
func ofRow(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, workqueue.ErrInvalid)
}

// refusals counts the alarms that could not be repaired.
type refusals struct {
	count int
	first error
}

func (r *refusals) note(id uuid.UUID, err error) {
	if err == nil {
		return
	}
	if r.count++; r.count == 1 {
		r.first = fmt.Errorf("%s: %w", id, err)
	}
}

func (r *refusals) err() error {
	if r.count == 0 {
		return nil
	}
	return fmt.Errorf("txwork: %d alarms could not be repaired; the first is %w", r.count, r.first)
}

func (s *Store) stranded(ctx context.Context, after position) (page []position, err error) {
	err = s.do(ctx, func(tx workqueue.Tx) error {
		return tx.Query(ctx, func(scan func(...any) error) error {
			var p position
			var hidden bool
			if err := scan(&p.at, &p.id, &hidden); err != nil {
				return err
			}
			if hidden {
				return errHidden
			}
			page = append(page, p)
			return nil
		}, s.alarms.statements.stranded, after.at, after.id, repairPage)
	})
	return page, err
}

// errHidden is why a dispatcher leaves repairs to others.
var errHidden = errors.New("txwork: row-level security hides timers from the role, so their alarms only seem to have " +
	"none: run a dispatcher as the owner of the tables or as a role with BYPASSRLS")

// repairOne repairs one alarm. It returns false if another session has locked the alarm or has repaired it.
func (s *Store) repairOne(ctx context.Context, id uuid.UUID) (repaired bool, err error) {
	err = s.do(ctx, func(tx workqueue.Tx) error {
		var held *stranded
		err := tx.Query(ctx, func(scan func(...any) error) (err error) {
			held = &stranded{}
			held.Alarm, err = scanAlarm(scan, &held.timer, &held.lastError, &held.cancelled, &held.nominal)
			return err
		}, s.alarms.statements.holdStranded, id)
		if err != nil || held == nil {
			return err
		}
		repaired = true
		return s.repair(ctx, tx, id, *held)
	})
	return repaired && err == nil, err
}

// A stranded alarm is due and has no timer that could fire.
type stranded struct {
	Alarm
	timer     *int16 // the status with which its timer ended; nil if it has no timer
	lastError string
	cancelled bool
	nominal   *time.Time
}

// repair does for a stranded alarm what the settle of its last delivery would have done.
func (s *Store) repair(ctx context.Context, tx workqueue.Tx, id uuid.UUID, x stranded) error {
	exec := func(statement string, args ...any) error {
		_, err := tx.Exec(ctx, statement, append([]any{id}, args...)...)
		return err
	}
	failed := x.timer != nil && workqueue.Status(*x.timer) == workqueue.Failed
	cause := storable(errors.New(x.lastError)).Error()
	switch {
	case !failed:
		return s.alarms.arm(ctx, tx, x.Alarm, x.NextFireAt)
	case x.cancelled:
		return exec(s.alarms.statements.revoked, cause)
	}
	if x.Kind == KindCron {
		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}
		if next, ok := x.next(*x.nominal, now); ok {
			if err := exec(s.alarms.statements.skip, next, cause); err != nil {
				return err
			}
			return s.alarms.arm(ctx, tx, x.Alarm, next)
		}
	}
	return exec(s.alarms.statements.failed, x.FailureCount, cause)
}
