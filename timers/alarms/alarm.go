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

// States of an [Alarm]. All but the first are final.
const (
	StatusActive    = "active"
	StatusFired     = "fired"     // delivered once; or a series that has no next time
	StatusCancelled = "cancelled" // by its owner
	StatusFailed    = "failed"    // its deliveries are used up
)

// An Alarm is a row of the table. Times are the database's, in UTC.
type Alarm struct {
	ID             string
	OwnerDID       string // who may see and cancel it
	UserID         string // who is to be woken
	Label          string
	Kind           string     // [KindOnce] or [KindCron]
	FireAt         *time.Time // of a once alarm: its nominal time
	CronExpr       string
	Timezone       string
	NextFireAt     time.Time // of the next delivery: retries move it
	ConversationID string
	WakeMessage    string
	Payload        json.RawMessage // as jsonb has it: equal as JSON to what was given
	Status         string
	IdempotencyKey string
	MaxFailures    int // deliveries of one firing that may fail, before it is given up
	FailureCount   int // how many have failed; those that were lost with their process are not among them
	LastError      string
	ClaimedAt      *time.Time // when the delivery began that is under way or was broken off
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastFiredAt    *time.Time
}

// A View is an alarm as its owner gets it over HTTP.
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

// ViewOf projects an alarm. Only an active one has a next time.
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
