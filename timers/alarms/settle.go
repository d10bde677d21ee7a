package alarms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

// The methods below change the alarm and settle its timer in one transaction. Each returns [ErrEnded] if the alarm has
// ended meanwhile, for example because it was cancelled: the timer is settled, and the alarm is not changed. Each
// returns [workqueue.ErrLeaseLost] if the claim is no longer valid: then nothing was changed. After either error there
// is nothing left to settle.

// MarkFired ends an alarm that was delivered.
func (s *Store) MarkFired(ctx context.Context, d Due) error {
	return s.settle(ctx, d, result{}, nil, s.alarms.statements.fired)
}

// Reschedule moves a cron alarm to its next time after an occurrence was delivered.
func (s *Store) Reschedule(ctx context.Context, d Due, next time.Time) error {
	return s.settle(ctx, d, result{}, &next, s.alarms.statements.reschedule, next)
}

// RecordRetry records a failed delivery, to be repeated after a delay, such as that of [Ladder]: 0 to [MaxDelay]. The
// nominal time does not change. It returns an error if this delivery was the last one.
func (s *Store) RecordRetry(ctx context.Context, d Due, delay time.Duration, cause error) error {
	switch {
	case d.last():
		return validate.Errorf("attempt", "%d is the last: %d of %d failures have been recorded before it", d.Attempt,
			d.FailureCount, d.MaxFailures)
	case delay < 0 || delay > MaxDelay:
		return validate.Errorf("delay", "is %v, it must be between 0 and %v", delay, MaxDelay)
	}
	return s.settle(ctx, d, result{resultRetry, delay, storable(cause)}, nil,
		s.alarms.statements.retry, delay.Microseconds(), d.FailureCount+1, storable(cause).Error())
}

// MarkFailed ends an alarm whose deliveries are used up or cannot succeed.
func (s *Store) MarkFailed(ctx context.Context, d Due, cause error) error {
	return s.settle(ctx, d, result{kind: resultFail, cause: storable(cause)}, nil,
		s.alarms.statements.failed, d.FailureCount+1, storable(cause).Error())
}

// RescheduleAfterFailure moves a cron alarm to its next time after the deliveries of an occurrence are used up. The
// next occurrence has all its deliveries again. The error stays the alarm's last error.
func (s *Store) RescheduleAfterFailure(ctx context.Context, d Due, next time.Time, cause error) error {
	return s.settle(ctx, d, result{kind: resultFail, cause: storable(cause)}, &next,
		s.alarms.statements.skip, next, storable(cause).Error())
}

// settle locks the alarm before the timer, as CancelAlarm does, to avoid deadlocks. If there is a next time, it sets
// the timer again before it settles the timer: the settle then makes it ready for that time.
func (s *Store) settle(ctx context.Context, d Due, r result, next *time.Time, statement string, args ...any) error {
	if d.tx == nil {
		return errors.New("txwork: this Due was not claimed, so there is nothing to settle")
	}
	id, err := uuid.Parse(d.ID)
	if err != nil {
		return notFound(d.ID)
	}
	ended := false
	err = d.tx(ctx, func(tx pgx.Tx) (result, error) {
		n, err := workqueue.Pgx(tx).Exec(ctx, statement, append([]any{id}, args...)...)
		if err != nil {
			return result{}, err
		}
		if ended = n == 0; ended {
			return result{kind: resultEnded}, nil
		}
		if next != nil {
			err = s.alarms.arm(ctx, workqueue.Pgx(tx), d.Alarm, *next)
		}
		return r, err
	})
	if err == nil && ended {
		return fmt.Errorf("txwork: %w: %s", ErrEnded, d.ID)
	}
	return err
}

// next returns the first time of a cron alarm after both the nominal time of this firing and now. It returns false if
// there is none, or if the rule can no longer be parsed, for example because its time zone was abolished.
func (a Alarm) next(nominal, now time.Time) (time.Time, bool) {
	rule, err := schedule.Parse(a.CronExpr, a.Timezone)
	if err != nil {
		return time.Time{}, false
	}
	_, _, next, ok := schedule.Rule{Misfire: schedule.MisfireSkip}.Due(rule, nominal, now)
	if ok && !next.After(nominal) {
		next, ok = rule.Next(nominal)
	}
	return next.UTC(), ok && next.Year() <= lastYear
}

// maxError is the longest last_error, in bytes.
const maxError = 2 << 10

// storable returns the error with a text that PostgreSQL accepts: valid UTF-8 without NUL, of limited length, and never
// empty.
func storable(cause error) error {
	if cause == nil {
		return errors.New("no reason given")
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(fmt.Sprint(cause), "\x00", ""), "\uFFFD")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	if text == "" {
		text = "no reason given"
	}
	return errors.New(text)
}
