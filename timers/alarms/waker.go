package alarms

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Origin is the Origin of every [Wake]. Receivers can use it to distinguish a wake from a message that a person has
// typed.
const Origin = "chronos"

// A Wake is delivered when an alarm fires. It contains the message and the payload of the alarm, unchanged.
type Wake struct {
	UserID         string          `json:"user_id"`
	ConversationID string          `json:"conversation_id,omitempty"`
	Message        string          `json:"message"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	AlarmID        string          `json:"alarm_id"`
	Origin         string          `json:"origin"`

	// FireAt is the nominal time of this firing. It is the same in all deliveries of a firing, and different for each
	// occurrence of a cron alarm.
	FireAt time.Time `json:"fire_at"`
	// Attempt counts the deliveries of this firing; 1 is the first.
	Attempt int `json:"attempt"`
}

// ID identifies the firing: it is the same in all its deliveries. A receiver that must act only once should remember
// it. An [HTTPWaker] sends it as the webhook-id.
func (w Wake) ID() string { return fmt.Sprintf("alarm_%s_%d", w.AlarmID, w.FireAt.UnixMicro()) }

// A Waker delivers wakes. Nil means that the wake was received. Any error is a failed delivery, and its text becomes
// the alarm's last_error. [workqueue.Permanent] says that no delivery of the alarm will ever succeed: the alarm fails
// at once, even if it is a cron alarm. [workqueue.RetryAfter] sets the shortest delay before the next delivery; if the
// delay of the [Ladder] is longer, that one applies.
//
// A Waker is called concurrently, outside any transaction, and at least once for each firing. It should return when ctx
// is cancelled.
type Waker interface {
	Wake(ctx context.Context, w Wake) error
}

// A WakerFunc is a function that implements [Waker].
type WakerFunc func(ctx context.Context, w Wake) error

// Wake calls the function.
func (f WakerFunc) Wake(ctx context.Context, w Wake) error { return f(ctx, w) }

func newWake(d due) Wake {
	return Wake{
		UserID:         d.UserID,
		ConversationID: d.ConversationID,
		Message:        d.WakeMessage,
		Payload:        d.Payload,
		AlarmID:        d.ID,
		Origin:         Origin,
		FireAt:         d.nominal(),
		Attempt:        d.delivery.Attempt,
	}
}
