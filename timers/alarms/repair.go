package alarms

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// repairs repairs until ctx is cancelled.
func (d *Dispatcher) repairs(ctx context.Context) {
	for {
		n, err := d.Repair(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.logger.WarnContext(ctx, "looking for alarms without a timer", slog.Any("error", err))
		case n > 0:
			d.logger.WarnContext(ctx, "alarms without a timer that could fire were put right", slog.Int("alarms", n))
		}
		if n < repairBatch {
			select {
			case <-ctx.Done():
			case <-time.After(repairInterval):
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// repairBatch bounds the alarms of one repair.
const repairBatch = 100

// Repair puts due alarms right that no timer would fire, and returns how many: those whose last delivery died with
// its process, whose timer somebody cancelled or failed by itself, and those that were written by other means than
// this package, such as a copy of another table. It is safe to run anywhere, any number of times; [Dispatcher.Run]
// does so every five seconds. Its cost is that of the alarms that are due.
func (d *Dispatcher) Repair(ctx context.Context) (n int, err error) {
	err = d.store.do(ctx, func(tx workqueue.Tx) error {
		list, err := d.store.stranded(ctx, tx)
		for i := 0; err == nil && i < len(list); i++ {
			err = d.store.repair(ctx, tx, list[i])
		}
		n = len(list)
		return err
	})
	return n, err
}

// A stranded alarm is due and has no timer that could fire.
type stranded struct {
	Alarm
	timer     *int16 // the state in which its timer ended; nil where it has none
	lastError string
	cancelled bool
	nominal   *time.Time
}

func (s *Store) stranded(ctx context.Context, tx workqueue.Tx) (list []stranded, err error) {
	err = workqueue.Query(ctx, tx, func(scan func(...any) error) (err error) {
		var x stranded
		x.Alarm, err = scanAlarm(scan, &x.timer, &x.lastError, &x.cancelled, &x.nominal)
		list = append(list, x)
		return err
	}, s.alarms.statements.stranded, repairBatch)
	return list, err
}

// repair does for a stranded alarm what the settle of its last delivery would have done.
func (s *Store) repair(ctx context.Context, tx workqueue.Tx, x stranded) error {
	id, err := uuid.Parse(x.ID)
	if err != nil {
		return err
	}
	exec := func(statement string, args ...any) error {
		_, err := workqueue.Exec(ctx, tx, statement, append([]any{id}, args...)...)
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
			return errors.Join(exec(s.alarms.statements.skip, next, cause), s.alarms.arm(ctx, tx, x.Alarm, next))
		}
	}
	return exec(s.alarms.statements.failed, x.MaxFailures, cause)
}
