package timers

import (
	"cmp"
	"strings"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// check refuses the first timer that the table could not hold, before anything is written.
func (t *Timers) check(timers []Timer) error {
	for i, timer := range timers {
		if err := t.checkTimer(timer); err != nil {
			return &workqueue.ItemError{Item: "timer", Index: i, Count: len(timers), Err: err}
		}
	}
	return nil
}

func (t *Timers) checkTimer(timer Timer) error {
	return cmp.Or(
		checkReserved(timer.Key),
		checkTime(timer),
		t.checkContent(timer),
	)
}

// checkContent validates what timers and the occurrences of schedules have in common.
func (t *Timers) checkContent(timer Timer) error {
	row := newRow(&timer, timer.ScheduledAt, timer.ScheduledAt, "")
	return t.table.Check(&row)
}

func checkKey(key string) error { return input.Name("key", key, MaxKey) }

func checkReserved(key string) error {
	if strings.HasPrefix(key, ReservedPrefix) {
		return validate.Errorf("key", "begins with %q: such keys are kept for the occurrences of schedules",
			ReservedPrefix)
	}
	return nil
}

// checkTime refuses times that are probably mistakes. A negative delay is more likely a wrong subtraction than a
// request to fire now; use ScheduledAt for a time that may have passed.
func checkTime(timer Timer) error {
	switch {
	case timer.Delay < 0:
		return validate.Errorf("delay", "is %v, it cannot be negative; a ScheduledAt may lie in the past", timer.Delay)
	case timer.Delay > MaxDelay:
		return validate.Errorf("delay", "is %v, at most %v is allowed", timer.Delay, MaxDelay)
	case timer.Delay > 0 && !timer.ScheduledAt.IsZero():
		return validate.Errorf("delay", "is set, and so is ScheduledAt: one of them says when")
	}
	return nil
}
