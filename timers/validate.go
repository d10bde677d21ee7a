package timers

import (
	"cmp"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
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
		checkKey(timer.Key),
		checkReserved(timer.Key),
		checkTopic(timer.Topic),
		checkTime(timer),
		t.checkContent(timer),
	)
}

// checkContent is for what timers and the occurrences of schedules share.
func (t *Timers) checkContent(timer Timer) error {
	return cmp.Or(
		workqueue.CheckSize("payload", len(timer.Payload), t.maxPayload),
		workqueue.CheckSize("headers", input.HeaderSize(timer.Headers), MaxHeaders),
		t.table.Check(newRow(timer, timer.FireAt, timer.FireAt, nil)),
	)
}

func checkKey(key string) error { return input.Name("key", key, MaxKey) }

func checkReserved(key string) error {
	if strings.HasPrefix(key, ReservedPrefix) {
		return workqueue.Invalid("key", "begins with %q: such keys are kept for the occurrences of schedules", ReservedPrefix)
	}
	return nil
}

func checkTopic(topic string) error { return input.Name("topic", topic, MaxTopic) }

// checkTime refuses what cannot have been meant. A negative delay is more likely a subtraction that went
// wrong than a wish for now; a deadline that may have passed is a FireAt.
func checkTime(timer Timer) error {
	switch {
	case timer.After < 0:
		return workqueue.Invalid("after", "is %v, it cannot be negative; a FireAt may lie in the past", timer.After)
	case timer.After > MaxDelay:
		return workqueue.Invalid("after", "is %v, at most %v is allowed", timer.After, MaxDelay)
	case timer.After > 0 && !timer.FireAt.IsZero():
		return workqueue.Invalid("after", "is set, and so is FireAt: one of them says when")
	}
	return nil
}

func newRow(t Timer, fireAt, dueAt time.Time, schedule any) workqueue.NewRow {
	return workqueue.NewRow{
		DueAt:       dueAt,
		MaxAttempts: t.MaxAttempts,
		Headers:     t.Headers,
		Values:      values(t, fireAt, schedule),
	}
}
