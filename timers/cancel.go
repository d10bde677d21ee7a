package timers

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// cancelReason is stored as the last error of a cancelled timer.
const cancelReason = "by its key"

// Cancel cancels timers in the application's transaction, and returns the keys of those that it changed, in byte order.
// A timer that waits ends as Failed, with its time of cancellation. If a timer is firing, the context of its handler is
// cancelled. The timer ends when the handler returns: as cancelled, unless the handler succeeds nevertheless. If the
// timer was set again during the firing, the new setting is discarded. A key without a timer is no error, nor is one
// whose timer has ended or was cancelled before.
//
// Errors and locks are those of [Timers.Set].
func (t *Timers) Cancel(ctx context.Context, tx workqueue.Tx, keys ...string) ([]string, error) {
	for i, key := range keys {
		if err := checkKey(key); err != nil {
			return nil, &workqueue.ItemError{Item: "timer", Index: i, Count: len(keys), Err: err}
		}
	}
	cancelled := make([]string, 0, len(keys))
	for chunk := range input.Chunks(slices.Compact(slices.Sorted(slices.Values(keys))),
		func(string) int { return MaxKey }) {
		some, err := t.cancelChunk(ctx, tx, chunk)
		if err != nil {
			return nil, err
		}
		cancelled = append(cancelled, some...)
	}
	return cancelled, nil
}

func (t *Timers) cancelChunk(ctx context.Context, tx workqueue.Tx, keys []string) ([]string, error) {
	byID := make(map[uuid.UUID]string, len(keys))
	done := make(map[string]bool, len(keys))
	err := t.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		var key string
		var rearmed bool
		err := scan(&id, &key, &rearmed)
		byID[id] = key
		done[key] = rearmed
		return err
	}, t.statements.cancel, keys)
	if err != nil || len(byID) == 0 {
		return nil, err
	}
	changed, err := t.table.In(tx).Cancel(ctx, slices.Collect(maps.Keys(byID)), cancelReason)
	for _, id := range changed {
		done[byID[id]] = true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !done[key] }), err
}
