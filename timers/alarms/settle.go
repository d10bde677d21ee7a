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

// The settles below change the alarm and settle its timer in one transaction. Each returns [ErrEnded] where the
// alarm has ended meanwhile, as by a cancel: its timer ends, and the alarm stays as it is. Each returns
// [workqueue.ErrLeaseLost] where the claim is no longer current: then nothing at all was changed. After both
// there is nothing left to settle.

// MarkFired ends an alarm that was delivered.
func (s *Store) MarkFired(ctx context.Context, d Due) error {
	return s.settle(ctx, d, result{}, nil, s.alarms.statements.fired)
}

// Reschedule moves a series on whose occurrence was delivered.
func (s *Store) Reschedule(ctx context.Context, d Due, next time.Time) error {
	return s.settle(ctx, d, result{}, &next, s.alarms.statements.reschedule, next)
}

// RecordRetry has a failed delivery repeated after a delay, such as that of [Ladder]; 0 to [MaxDelay]. The nominal
// time stays. It refuses where the deliveries are used up.
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

// MarkFailed ends an alarm whose deliveries are used up, or cannot succeed.
func (s *Store) MarkFailed(ctx context.Context, d Due, cause error) error {
	return s.settle(ctx, d, result{kind: resultFail, cause: storable(cause)}, nil,
		s.alarms.statements.failed, d.FailureCount+1, storable(cause).Error())
}

// RescheduleAfterFailure moves a series on past an occurrence whose deliveries are used up. The next one has all
// of its own; the error stays as the alarm's last.
func (s *Store) RescheduleAfterFailure(ctx context.Context, d Due, next time.Time, cause error) error {
	return s.settle(ctx, d, result{kind: resultFail, cause: storable(cause)}, &next,
		s.alarms.statements.skip, next, storable(cause).Error())
}

// settle locks the alarm first and the timer after it, as a cancel does. Where there is a next time the timer is
// set again before it is settled: the end of its firing then makes it ready for that.
func (s *Store) settle(ctx context.Context, d Due, r result, next *time.Time, statement string, args ...any) error {
	if d.tx == nil {
		return errors.New("txwork: this Due comes from no claim: it has nothing to settle")
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

// next is the first time of a series that is later than the nominal time of this firing and than now. It is false
// where there is none, also where the rule can no longer be read, as when its zone has been abolished.
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

// maxError bounds last_error, in bytes.
const maxError = 2 << 10

// storable is an error's text as PostgreSQL takes it: no NUL, valid UTF-8, bounded, and never empty.
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
