package workqueue

import (
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// outcomeOfHistory is what history calls the ends of rows, in the words of telemetry. The others are not counted.
var outcomeOfHistory = map[string]history.Outcome{
	telemetry.OutcomeAck: history.Done, telemetry.OutcomeAbandon: history.Retried,
	telemetry.OutcomeFail: history.Dead, telemetry.OutcomeExhausted: history.Dead,
	telemetry.OutcomeSnooze: history.Snoozed, telemetry.OutcomeUnavailable: history.Snoozed,
	telemetry.OutcomeCancel: history.Cancelled,
	telemetry.OutcomeLost:   history.Lost, telemetry.OutcomeGone: history.Lost,
}

// countSettled counts what became of rows.
func (e *engine) countSettled(rows []*settlement) {
	if e.counts == nil {
		return
	}
	for _, s := range rows {
		if o, counted := outcomeOfHistory[s.became]; counted {
			e.counts.Settled(s.row.labels[e.table.counted], o)
		}
	}
}

// countStart counts for how long a row could have been claimed before its handler began.
func (e *engine) countStart(d *delivery, start time.Time) {
	e.counts.Waited(d.labels[e.table.counted], e.dbClock.of(start).Sub(d.DueAt))
}

// countRun counts for how long the handler of a row ran.
func (e *engine) countRun(d *delivery, h telemetry.Handled, start time.Time) {
	if !h.Left {
		e.counts.Ran(d.labels[e.table.counted], time.Since(start))
	}
}
