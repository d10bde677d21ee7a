package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// Set sets timers in the application's transaction. The results are in their order: a timer whose key is there is a
// Duplicate that is Replaced.
//
// A timer whose key is new is created. One that waits is moved. One that has fired, failed or was cancelled
// begins again, with all its attempts. One that is firing is left to its handler, with what it was given;
// however that ends, the timer is then set again. The last of several timers with one key in a call holds.
//
// Every timer is validated before the first is written; an [*workqueue.ItemError] says which one was refused and why,
// and the transaction is as it was. After any other error roll the transaction back. The timers' rows stay
// locked until the transaction ends: a firing that ends meanwhile waits for it.
func (t *Timers) Set(ctx context.Context, tx workqueue.Tx, timers ...Timer) ([]workqueue.Enqueued, error) {
	timers, err := t.encoded(ctx, timers)
	if err == nil {
		err = t.check(timers)
	}
	if err != nil {
		return nil, err
	}
	set := make(map[string]workqueue.Enqueued, len(timers))
	for chunk := range input.Chunks(distinct(timers), Timer.size) {
		if err := t.setChunk(ctx, tx, chunk, set); err != nil {
			return nil, err
		}
	}
	inOrder := make([]workqueue.Enqueued, len(timers))
	for i, timer := range timers {
		inOrder[i] = set[timer.Key]
	}
	return inOrder, nil
}

// distinct are the last timers of each key, in the order in which rows are locked.
func distinct(timers []Timer) []Timer {
	last := make(map[string]Timer, len(timers))
	for _, timer := range timers {
		last[timer.Key] = timer
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Timer) int { return cmp.Compare(a.Key, b.Key) })
}

// maxVanished is how often in a row a timer's row may be inserted or deleted by others while it is set.
const maxVanished = 10

// setChunk changes what is there and inserts the rest. What somebody else has inserted meanwhile is changed.
func (t *Timers) setChunk(ctx context.Context, tx workqueue.Tx, timers []Timer,
	set map[string]workqueue.Enqueued) error {
	for range maxVanished {
		missing, err := t.change(ctx, tx, timers, set)
		if err != nil || len(missing) == 0 {
			return err
		}
		if timers, err = t.insert(ctx, tx, missing, set); err != nil || len(timers) == 0 {
			return err
		}
	}
	return fmt.Errorf("txwork: timer %q is there when it is to be inserted, and is not when it is to be changed",
		timers[0].Key)
}

// change sets the timers that are there and returns the others, with their time.
func (t *Timers) change(ctx context.Context, tx workqueue.Tx, timers []Timer,
	set map[string]workqueue.Enqueued) ([]Timer, error) {
	args, err := newSetting(ctx, timers)
	if err != nil {
		return nil, err
	}
	var missing []Timer
	err = t.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var ord int
		var at time.Time
		var id *uuid.UUID
		var told *bool
		if err := scan(&ord, &at, &id, &told); err != nil {
			return err
		}
		timer := timers[ord-1]
		if id != nil {
			set[timer.Key] = workqueue.Enqueued{ID: *id, Duplicate: true, Replaced: true}
			return nil
		}
		timer.ScheduledAt, timer.Delay = at, 0
		missing = append(missing, timer)
		return nil
	}, t.statements.set, args...)
	slices.SortFunc(missing, func(a, b Timer) int { return cmp.Compare(a.Key, b.Key) })
	return missing, err
}

// insert writes new timers and returns those whose key is there by now.
func (t *Timers) insert(ctx context.Context, tx workqueue.Tx, timers []Timer,
	set map[string]workqueue.Enqueued) (taken []Timer, err error) {
	rows := make([]workqueue.NewRow, len(timers))
	for i, timer := range timers {
		rows[i] = newRow(timer, timer.ScheduledAt, timer.ScheduledAt, nil)
	}
	inserted, err := t.table.Insert(ctx, tx, rows...)
	for i, in := range inserted {
		if in.Duplicate {
			taken = append(taken, timers[i])
		} else {
			set[timers[i].Key] = in
		}
	}
	return taken, err
}

// newSetting is the arguments of set.sql: an array for each column.
func newSetting(ctx context.Context, timers []Timer) ([]any, error) {
	var keys, topics []string
	var payloads []any
	var headers []*string
	var attempts, delays []*int64
	var times []*time.Time
	for _, t := range timers {
		encoded, err := encodeHeaders(ctx, t.Headers)
		if err != nil {
			return nil, err
		}
		keys, topics, payloads, headers = append(keys, t.Key), append(topics, t.Topic), append(payloads, t.payload()),
			append(headers, encoded)
		attempts, delays = append(attempts, positive(int64(t.MaxAttempts))),
			append(delays, pointer(t.Delay.Microseconds()))
		var at *time.Time
		if !t.ScheduledAt.IsZero() {
			at = &t.ScheduledAt
		}
		times = append(times, at)
	}
	return []any{keys, topics, payloads, headers, attempts, times, delays}, nil
}

func pointer(n int64) *int64 { return &n }

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// encodeHeaders adds the trace context of ctx under the timer's own headers, as the core does for new rows.
func encodeHeaders(ctx context.Context, own map[string]string) (*string, error) {
	all := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, all)
	maps.Copy(all, own)
	if len(all) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(all)
	text := string(encoded)
	return &text, err
}
