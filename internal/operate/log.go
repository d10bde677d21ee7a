package operate

import (
	"context"

	"github.com/txwork/txwork/internal/survey"
)

// A Log is an outbox that is a log, and how far its subscriptions are behind.
type Log struct {
	Table         string         `json:"table"`              // with its schema
	Tick          int64          `json:"tick"`               // number of the newest tick; 0: there is none
	TickAge       float64        `json:"tick_seconds"`       // how old it is
	Unticked      float64        `json:"unticked_seconds"`   // how long ago the oldest message was written that it has not seen
	Oldest        float64        `json:"oldest_seconds"`     // how long ago the oldest message was written that is kept
	Bytes         int64          `json:"bytes"`              // size of the messages and their indexes
	Scheduled     int64          `json:"scheduled"`          // messages that are not in the log yet: they are due later, or just now
	AtLeast       bool           `json:"scheduled_at_least"` // there may be more of them
	Overdue       float64        `json:"overdue_seconds"`    // how long ago the first of them was due; 0: none is due
	Restored      bool           `json:"restored,omitempty"` // transaction ids began again: it has to be rebased
	Moving        *Moving        `json:"moving,omitempty"`   // an outbox of rows moves here, which has not ended
	Subscriptions []Subscription `json:"subscriptions"`      // in the order of their names
	Hidden        bool           `json:"hidden,omitempty"`   // row-level security hides rows from the role: nothing was read
}

// A Moving is the move of an outbox from rows to a log.
type Moving struct {
	Subscription string `json:"subscription"` // the one that gets the rows
	Unfinished   int64  `json:"unfinished"`   // rows that have not ended, of which 20000 are counted
	InProgress   int64  `json:"in_progress"`  // rows of these that a relay has in hand
	Limited      int64  `json:"limited"`      // rows of these whose key has a limit, which do not move
}

// A Subscription is one of a log.
type Subscription struct {
	Name        string  `json:"name"`
	Paused      bool    `json:"paused"`
	Messages    int64   `json:"messages"`          // messages that are not settled
	AtLeast     bool    `json:"messages_at_least"` // there may be more of them
	Oldest      float64 `json:"oldest_seconds"`    // how long ago the oldest of them was written
	Behind      float64 `json:"behind_seconds"`    // how long it has been behind, whether or not what it has not passed is for it
	InHand      int64   `json:"lanes_in_hand"`     // lanes of which consumers have a page
	Live        int64   `json:"parked"`            // parked messages that have not ended
	DeadLetters int64   `json:"dead_letters"`      // parked messages that failed
	Retained    int64   `json:"retained_bytes"`    // what the log keeps until it has passed it
	Lanes       []Lane  `json:"lanes"`             // in the order of their numbers
	Rest        *Rest   `json:"rest,omitempty"`    // its destination is unavailable
	Lost        int64   `json:"lost"`              // messages that it was moved past, by cut, replay or its retention

	Retention
}

// A Retention bounds how far a subscription may be behind.
type Retention struct {
	MaxAge      float64 `json:"max_age_seconds,omitempty"` // messages that are older are lost to it; missing: none are
	MaxMessages int64   `json:"max_messages,omitempty"`    // messages of the log, of which it loses older ones; missing: it loses none
}

// A Rest is that of a subscription whose destination is unavailable.
type Rest struct {
	Unavailable float64 `json:"unavailable_seconds"` // for how long it has been
	Probe       float64 `json:"probe_seconds"`       // until a message probes it; 0 while one does, or may
	Cause       string  `json:"cause"`               // what was said last
}

// A Lane is one of a subscription.
type Lane struct {
	Lane     int32   `json:"lane"`              // number of the lane, from 0
	Messages int64   `json:"messages"`          // messages that are not settled
	AtLeast  bool    `json:"messages_at_least"` // there may be more of them
	Oldest   float64 `json:"oldest_seconds"`    // how long ago the oldest of them was written
	Behind   float64 `json:"behind_seconds"`    // how long it has been behind
	InHand   bool    `json:"in_hand"`           // a consumer has a page of it
	Attempts int32   `json:"attempts"`          // how many consumers have claimed its batch
	Retained int64   `json:"retained_bytes"`    // what the log keeps until it has passed it
}

// Logs returns the logs of the schema: one, or none.
func (d *DB) Logs(ctx context.Context) ([]Log, error) {
	r := survey.Reader{From: d.Pool, Limit: ReadLimit}
	l, err := survey.LogOf(ctx, r, d.Schema)
	if err != nil || l == nil {
		return []Log{}, err
	}
	log, err := ReadLog(ctx, r, l)
	return []Log{log}, err
}

// ReadLog reads a log. Its statements are bounded, so that it can be called every few seconds.
func ReadLog(ctx context.Context, r survey.Reader, l *survey.Log) (Log, error) {
	log := Log{Table: l.Schema + "." + l.Name, Subscriptions: []Subscription{}, Hidden: l.Filtered}
	if l.Filtered {
		return log, nil
	}
	facts, err := survey.FactsOfLog(ctx, r, l)
	if err != nil {
		return log, err
	}
	log.Tick, log.TickAge, log.Unticked = facts.Tick, facts.TickAge, facts.Unticked
	log.Oldest, log.Bytes = facts.Oldest, facts.Bytes
	log.Scheduled, log.Overdue = facts.Scheduled, facts.Overdue
	log.AtLeast = facts.Scheduled >= survey.ScheduledMessages
	if log.Restored, err = survey.IsRestored(ctx, r, l); err != nil {
		return log, err
	}
	if move, err := survey.MoveOf(ctx, r, l); err != nil {
		return log, err
	} else if move != nil {
		log.Moving = &Moving{move.Successor, move.Unfinished, move.InProgress, move.Limited}
	}
	all, err := survey.Subscriptions(ctx, r, l)
	for i := range all {
		log.Subscriptions = append(log.Subscriptions, newSubscription(&all[i]))
	}
	return log, err
}

func newSubscription(s *survey.Subscription) Subscription {
	shown := Subscription{Name: s.Name, Paused: s.Paused, Oldest: s.Oldest(), Behind: s.Age(), InHand: s.InHand(),
		Live: s.Live, DeadLetters: s.Dead, Retained: s.Retained()}
	shown.Messages, shown.AtLeast = s.Messages()
	shown.Lost, shown.Retention = s.Retention.Lost, Retention{s.Retention.MaxAge, s.Retention.MaxMessages}
	if r := s.Rest; r != nil {
		shown.Rest = &Rest{r.Seconds, max(r.Probe, 0), r.Cause}
	}
	for _, l := range s.Lanes {
		shown.Lanes = append(shown.Lanes, Lane{l.Lane, l.Messages, l.More, l.Oldest, max(l.Oldest, l.Behind), l.InHand,
			l.Attempts, l.Retained})
	}
	return shown
}
