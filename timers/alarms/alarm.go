package alarms

import (
	"encoding/json"
	"time"
)

// Kinds of an [Alarm].
const (
	KindOnce = "once" // fires at one moment
	KindCron = "cron" // fires whenever a cron rule says so
)

// States of an [Alarm]. All but StatusActive are final, except that an operator can redrive the timer of an alarm that
// has failed: the alarm is active again when it is delivered.
const (
	StatusActive    = "active"
	StatusFired     = "fired"     // a once alarm that was delivered, or a cron alarm without a next time
	StatusCancelled = "cancelled" // by its owner
	StatusFailed    = "failed"    // its firing has failed too often, or no delivery can succeed
)

// An Alarm is a row of the table. Times are by the database's clock, in UTC.
type Alarm struct {
	ID             string
	OwnerDID       string // who may see and cancel it
	UserID         string // who is to be woken
	Label          string
	Kind           string     // [KindOnce] or [KindCron]
	FireAt         *time.Time // the nominal time of a once alarm; nil for a cron alarm
	CronExpr       string
	Timezone       string
	NextFireAt     time.Time // the time of the next delivery; retries move it
	ConversationID string
	WakeMessage    string
	Payload        json.RawMessage // as jsonb returns it: equal to the given JSON as a value, not byte for byte
	Status         string
	IdempotencyKey string
	MaxFailures    int // how many deliveries of one firing may fail before it is given up
	FailureCount   int // how many have failed, without those that were lost because their process died
	LastError      string
	ClaimedAt      *time.Time // when the current or interrupted delivery began
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastFiredAt    *time.Time
}

// A View is an alarm as the REST API shows it to its owner.
type View struct {
	ID             string          `json:"id"`
	Label          string          `json:"label"`
	Kind           string          `json:"kind"`
	CronExpr       string          `json:"cron_expr,omitempty"`
	Timezone       string          `json:"timezone,omitempty"`
	NextFireAt     *time.Time      `json:"next_fire_at,omitempty"`
	ConversationID string          `json:"conversation_id,omitempty"`
	WakeMessage    string          `json:"wake_message"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	Status         string          `json:"status"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	MaxFailures    int             `json:"max_failures"`
	FailureCount   int             `json:"failure_count"`
	LastError      string          `json:"last_error,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	LastFiredAt    *time.Time      `json:"last_fired_at,omitempty"`
}

// ViewOf returns the view of an alarm. Only an active alarm has a NextFireAt.
func ViewOf(a Alarm) View {
	v := View{
		ID:             a.ID,
		Label:          a.Label,
		Kind:           a.Kind,
		CronExpr:       a.CronExpr,
		Timezone:       a.Timezone,
		ConversationID: a.ConversationID,
		WakeMessage:    a.WakeMessage,
		Payload:        a.Payload,
		Status:         a.Status,
		IdempotencyKey: a.IdempotencyKey,
		MaxFailures:    a.MaxFailures,
		FailureCount:   a.FailureCount,
		LastError:      a.LastError,
		CreatedAt:      a.CreatedAt,
		LastFiredAt:    a.LastFiredAt,
	}
	if a.Status == StatusActive {
		v.NextFireAt = &a.NextFireAt
	}
	return v
}
