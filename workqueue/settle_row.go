package workqueue

import (
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A settlement is one claim with the outcome it is to have. That of a delivery lies in it and is passed on by pointer,
// from the handler to the statement.
type settlement struct {
	claimRef
	row     *claimedRow   // nil: only its id is known
	lane    *history.Lane // in which it is counted, as that of its delivery; nil: only its id is known
	outcome *Outcome
	message string   // the cause as it is stored
	folds   bool     // it writes notes, and the worker that settles it folds them
	run     *runName // of an ordered key, with which it is settled; nil: none
	place   int      // in it

	unconfirmed *settlement // that of a handler's transaction whose commit failed, or lost its reply; nil: none

	at     standing
	became string // of the row, in the words of telemetry; empty: nothing

	// Of one that has failed, see bisector.
	waits int       // how often it was postponed
	due   time.Time // until when it is postponed
	mark  int       // when it first failed: the bisector's successful settles so far, plus 1; 0: not set
}

// isOfRun reports whether it is settled with others of its key.
func (s *settlement) isOfRun() bool { return s.run != nil }

// writesNotes reports whether its settle writes notes that the worker folds.
func (s *settlement) writesNotes() bool { return s.folds }

// isNew reports whether it has never been tried.
func (s *settlement) isNew() bool { return s.waits == 0 && s.mark == 0 }

// A standing is the state of a row.
type standing struct {
	status    Status
	cancelled bool
}

// leadsTo reports whether its outcome leads to a state.
func (s *settlement) leadsTo(status Status) bool { return s.outcome.kind.leadsTo(status) }

// committed reports whether the state may be that of a handler's transaction whose commit lost its reply.
func (s *settlement) committed(status Status) bool {
	return s.unconfirmed != nil && s.unconfirmed.leadsTo(status)
}

// end is what became of a settled row: its outcome, or exhausted if that was its last attempt, or cancel if a cancel of
// the row had been asked for.
func (s *settlement) end(at standing) string {
	switch kind := s.outcome.kind; {
	case kind == outcomeFail || at.status != Failed:
		return kind.String()
	case at.cancelled:
		return telemetry.OutcomeCancel
	}
	return telemetry.OutcomeExhausted
}

// reason is why an attempt follows, or why the row is a dead letter; empty if neither is so.
func (s *settlement) reason() string {
	switch {
	case s.became == telemetry.OutcomeAbandon:
		return telemetry.Failed
	case s.became == telemetry.OutcomeFail && !s.at.cancelled:
		return telemetry.Permanent
	case s.became == telemetry.OutcomeExhausted:
		return telemetry.Exhausted
	}
	return ""
}

// settlements implement [telemetry.Rows].
type settlements []*settlement

func (b settlements) Len() int { return len(b) }

func (b settlements) Row(i int) telemetry.Row {
	s := b[i]
	row := telemetry.Row{ID: s.id, Delay: -1}
	if s.row != nil {
		row = s.row.row()
	}
	row.State, row.Outcome, row.Reason, row.Error = int16(s.at.status), s.became, s.reason(), s.message
	if s.at.status == Ready && s.became != telemetry.OutcomeLost && s.became != telemetry.OutcomeGone {
		row.Delay = s.outcome.delay
	}
	return row
}
