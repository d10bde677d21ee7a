package alarms

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Origin is that of every [Wake], so that a receiver can tell it from what a person typed.
const Origin = "chronos"

// A Wake is what is delivered when an alarm fires: what its owner left for this moment, unchanged.
type Wake struct {
	UserID         string          `json:"user_id"`
	ConversationID string          `json:"conversation_id,omitempty"`
	Message        string          `json:"message"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	AlarmID        string          `json:"alarm_id"`
	Origin         string          `json:"origin"`

	// FireAt is the nominal time of this firing: the same on each of its deliveries, and another for each
	// occurrence of a series.
	FireAt time.Time `json:"fire_at"`
	// Attempt counts the deliveries of this firing; 1 is the first.
	Attempt int `json:"attempt"`
}

// ID names the firing: the same on each of its deliveries. It is what a receiver should remember in order to act
// once, and the webhook-id of an [HTTPWaker].
func (w Wake) ID() string { return fmt.Sprintf("alarm_%s_%d", w.AlarmID, w.FireAt.UnixMicro()) }

// A Waker delivers wakes. Nil means that the wake was received; any error is a failed delivery, and its text
// becomes the alarm's last_error. [workqueue.Permanent] says that no delivery of the alarm will ever succeed: it fails
// at once, a series, too. [workqueue.RetryAfter] says that the next one is not to come before that delay; the
// [Ladder]'s is kept where it is longer.
//
// A Waker is called concurrently, outside any transaction, and at least once for each firing; when ctx is cancelled it
// should give up.
type Waker interface {
	Wake(ctx context.Context, w Wake) error
}

// A WakerFunc is a function as a [Waker].
type WakerFunc func(ctx context.Context, w Wake) error

// Wake calls the function.
func (f WakerFunc) Wake(ctx context.Context, w Wake) error { return f(ctx, w) }

func newWake(d Due) Wake {
	return Wake{
		UserID:         d.UserID,
		ConversationID: d.ConversationID,
		Message:        d.WakeMessage,
		Payload:        d.Payload,
		AlarmID:        d.ID,
		Origin:         Origin,
		FireAt:         d.Nominal,
		Attempt:        d.Attempt,
	}
}
