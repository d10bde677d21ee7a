package workqueue

import "github.com/txwork/txwork/workqueue/internal/telemetry"

// An outcomeKind is a way in which a claim can end.
type outcomeKind uint8

const (
	outcomeAck outcomeKind = iota
	outcomeRetry
	outcomeSnooze
	outcomeInterrupt // put back where it was, after its handler had begun
	outcomeLeave     // put back later, before its handler began
	outcomeRelease   // put back where it was, before its handler began
	outcomeFail
	outcomeCancel
	outcomeUnavailable // put back where it was, and its topic rests. The last: it locks topics behind all rows
	outcomeKinds       // how many there are
)

// outcomes say of each kind how it is settled, and what follows.
var outcomes = [outcomeKinds]struct {
	name      string // in messages and telemetry
	statement string // the file of sql that settles such rows
	deletes   string // … in tables that delete done rows, if they end as Done
	again     bool   // the row can be due again while this worker runs
	ends      Status // the state of the row afterwards; Ready also stands for a row whose attempts were used up
}{
	outcomeAck:       {name: telemetry.OutcomeAck, statement: "ack", deletes: "ack_delete", ends: Done},
	outcomeRetry:     {name: telemetry.OutcomeAbandon, statement: "abandon", again: true},
	outcomeSnooze:    {name: telemetry.OutcomeSnooze, statement: "snooze", again: true},
	outcomeInterrupt: {name: telemetry.OutcomeRelease, statement: "snooze"},
	outcomeLeave:     {name: telemetry.OutcomeLeave, statement: "leave", again: true},
	outcomeRelease:   {name: telemetry.OutcomeRelease, statement: "release"},
	outcomeFail:      {name: telemetry.OutcomeFail, statement: "fail", ends: Failed},
	outcomeCancel:    {name: telemetry.OutcomeCancel, statement: "fail", ends: Failed},
	// It is due again with its topic, but a worker has to learn when that ends its rest.
	outcomeUnavailable: {name: telemetry.OutcomeUnavailable, statement: "unavailable", again: true},
}

func (k outcomeKind) String() string { return outcomes[k].name }

// leadsTo reports whether a row that still carries the claim's token may be in this state because this very outcome was
// applied before.
func (k outcomeKind) leadsTo(s Status) bool {
	return s == outcomes[k].ends || s == Failed && outcomes[k].ends == Ready
}
