package timers

import (
	"context"
	"slices"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded are the timers with payloads in the place of values. The caller's stay as they are.
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

// envelope has the timer's key in the place of the row's id: a Set finds the row by it. The occurrences of a
// schedule share their payload, so it is bound to the schedule.
func (t *Timers) envelope(key, schedule string, headers map[string]string) codec.Envelope {
	id := codec.KeyID(key)
	if schedule != "" {
		id = codec.KeyID("schedule", schedule)
	}
	return codec.NewEnvelope(t.table.Name(), id, headers)
}

// Decode reads Payload with the timers' codec into what the pointer points to. The error is a
// [*codec.DecodeError]: return it from the handler, as [codec.Handler] does by itself. A Delivery that a
// handler's test has made has no Timers, and its payload is JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
