package timers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// Set sets a timer in the application's transaction. If its key exists already, the result is both a Duplicate and
// Replaced.
//
// Set creates a timer whose key is new, and replaces one that waits. A timer that has fired, has failed or was
// cancelled starts again with all its attempts. A timer that is firing stays with its handler, and its data is
// unchanged; when that delivery finishes, with whatever result, the new setting takes effect.
//
// Check the error. A timer that is refused is a [*workqueue.InvalidError]; the transaction is unchanged then. After any
// other error, roll the transaction back. The timer's row stays locked until the transaction ends: if it finishes
// firing meanwhile, its settle waits.
func (t *Timers) Set(ctx context.Context, tx workqueue.Tx, timer Timer) (workqueue.Enqueued, error) {
	set, err := t.SetMany(ctx, tx, timer)
	if err != nil {
		return workqueue.Enqueued{}, err
	}
	return set[0], nil
}

// SetMany is [Timers.Set] for any number of timers, in as few statements as possible. The results are in the order of
// the timers; without timers it does nothing. If several timers have the same key, the last one is set. Every timer is
// validated before the first is written; an [*workqueue.ItemError] says which one was refused and why. After any other
// error, some of them may have been set: roll the transaction back.
func (t *Timers) SetMany(ctx context.Context, tx workqueue.Tx, timers ...Timer) ([]workqueue.Enqueued, error) {
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

// distinct returns the last timer of each key, in the order of keys, which is the order in which rows are locked.
func distinct(timers []Timer) []Timer {
	last := make(map[string]Timer, len(timers))
	for _, timer := range timers {
		last[timer.Key] = timer
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Timer) int { return cmp.Compare(a.Key, b.Key) })
}

// maxVanished is how often setChunk tries again because other transactions inserted or deleted the rows of its timers
// meanwhile.
const maxVanished = 10

// setChunk changes the timers that exist and inserts the others. If another transaction has inserted one meanwhile, it
// is changed in the next round.
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
	return fmt.Errorf("txwork: other transactions keep inserting and deleting timer %q: try again",
		timers[0].Key)
}

// change sets the timers that exist, and returns the others with the time at which they fire.
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
		var notified *bool
		if err := scan(&ord, &at, &id, &notified); err != nil {
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

// insert writes new timers, and returns those whose key was taken meanwhile.
func (t *Timers) insert(ctx context.Context, tx workqueue.Tx, timers []Timer,
	set map[string]workqueue.Enqueued) (taken []Timer, err error) {
	rows := make([]workqueue.NewRow, len(timers))
	for i, timer := range timers {
		rows[i] = newRow(&timer, timer.ScheduledAt, timer.ScheduledAt, "")
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

// newSetting returns the arguments of set.sql: an array for each column.
func newSetting(ctx context.Context, timers []Timer) ([]any, error) {
	var keys, topics []string
	var payloads []any
	var headers []*string
	var attempts, delays []*int64
	var times []*time.Time
	for _, t := range timers {
		encoded, _, err := workqueue.NewRow{Headers: t.Headers}.Stored(ctx)
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
