package timers

import (
	"context"
	"slices"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded returns the timers with their values encoded as payloads. It leaves the caller's timers unchanged.
func (t *Timers) encoded(ctx context.Context, timers []Timer) ([]Timer, error) {
	if !slices.ContainsFunc(timers, func(timer Timer) bool { return timer.Value != nil }) {
		return timers, nil
	}
	timers = slices.Clone(timers)
	for i := range timers {
		timer := &timers[i]
		data, err := payload.Of(ctx, t.codec, t.envelope(timer.Key, "", timer.Headers), timer.Value, timer.Payload)
		if err != nil {
			return nil, &workqueue.ItemError{Item: "timer", Index: i, Count: len(timers), Err: err}
		}
		timer.Payload, timer.Value = data, nil
	}
	return timers, nil
}

// envelope identifies a payload by the timer's key instead of the row's id, because Set does not know the id of an
// existing row. Occurrences of a schedule share one payload, so it is bound to the schedule.
func (t *Timers) envelope(key, schedule string, headers map[string]string) codec.Envelope {
	id := codec.KeyID(key)
	if schedule != "" {
		id = codec.KeyID("schedule", schedule)
	}
	return codec.NewEnvelope(t.table.Name(), id, headers)
}

// Decode decodes Payload with the timers' codec into the value that the pointer points to. The error is a
// [*codec.DecodeError]; return it from the handler, as [codec.Handler] does. A Delivery that a test has constructed has
// no Timers: its payload is decoded as JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
