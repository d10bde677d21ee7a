package alarms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A due is a due alarm in the hands of the worker that has claimed its timer.
type due struct {
	Alarm
	alarms   *Alarms
	delivery *timers.Delivery
	logger   *slog.Logger
}

// nominal returns the nominal time of this firing: retries never change it.
func (d due) nominal() time.Time { return d.delivery.ScheduledAt.UTC() }

// last reports whether a failure of this delivery ends the firing: because it exhausts the failures that are allowed,
// or because so many deliveries were lost that the timer has no attempt left.
func (d due) last() bool {
	return d.FailureCount+1 >= d.MaxFailures || d.delivery.Attempt >= d.delivery.MaxAttempts
}

// errEnded says that the alarm ended, for example because it was cancelled, before its delivery was settled. Then its
// timer is settled, and the alarm is not changed.
var errEnded = errors.New("the alarm has ended")

// The methods below change the alarm and settle its timer in one transaction. Each returns errEnded if the alarm has
// ended meanwhile, and [workqueue.ErrLeaseLost] if the claim is no longer valid: then nothing was changed. After either
// error there is nothing left to settle.

// fired ends an alarm that was delivered.
func (d due) fired(ctx context.Context) error {
	return d.settle(ctx, nil, nil, d.alarms.statements.fired)
}

// reschedule moves a cron alarm to its next time after an occurrence was delivered.
func (d due) reschedule(ctx context.Context, next time.Time) error {
	return d.settle(ctx, nil, &next, d.alarms.statements.reschedule, next)
}

// retry records a failed delivery, to be repeated after a delay. The nominal time does not change.
func (d due) retry(ctx context.Context, delay time.Duration, cause error) error {
	cause = storable(cause)
	return d.settle(ctx, workqueue.RetryAfter(delay, cause), nil, d.alarms.statements.retry, delay.Microseconds(),
		d.FailureCount+1, cause.Error())
}

// failed ends an alarm whose deliveries are used up or cannot succeed.
func (d due) failed(ctx context.Context, cause error) error {
	cause = storable(cause)
	return d.settle(ctx, workqueue.Permanent(cause), nil, d.alarms.statements.failed, d.FailureCount+1, cause.Error())
}

// skip moves a cron alarm to its next time after the deliveries of an occurrence are used up. The next occurrence has
// all its deliveries again. The error stays the alarm's last error.
func (d due) skip(ctx context.Context, next time.Time, cause error) error {
	cause = storable(cause)
	return d.settle(ctx, workqueue.Permanent(cause), &next, d.alarms.statements.skip, next, cause.Error())
}

// settle locks the alarm before the timer, as CancelAlarm does, to avoid deadlocks. If there is a next time, it sets
// the timer again before it settles the timer: the settle then makes it ready for that time.
func (d due) settle(ctx context.Context, outcome error, next *time.Time, statement string, args ...any) error {
	ended := false
	err := d.delivery.Tx(ctx, func(tx pgx.Tx) error {
		n, err := workqueue.Pgx(tx).Exec(ctx, statement, append([]any{d.ID}, args...)...)
		if err != nil {
			return err
		}
		if ended = n == 0; ended {
			return workqueue.Cancelled(errEnded.Error())
		}
		if next != nil {
			if err := d.alarms.arm(ctx, workqueue.Pgx(tx), d.Alarm, *next); err != nil {
				return err
			}
		}
		return outcome
	})
	if err == nil && ended {
		return errEnded
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
	text := strings.ToValidUTF8(strings.ReplaceAll(fmt.Sprint(cause), "\x00", ""), "\uFFFD")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	text = cmp.Or(text, "no reason given")
	return errors.New(text)
}
