package log

import (
	"context"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// appendAny writes messages of which some have dedup keys, are scheduled, or may be behind one that is. Those whose
// dedup keys are taken become duplicates. A trim may free a key between the refusal and the look at its holder: then
// the message is written after all, behind the others.
func (w *Writer) appendAny(ctx context.Context, s Session, takesTurns bool, messages []Message,
	all []workqueue.Enqueued) error {
	left := make([]int, len(messages)) // the places of those of which it is not known what becomes of them
	for i := range left {
		left[i] = i
	}
	for range maxVanished {
		refused, err := w.write(ctx, s, takesTurns, messages, left)
		if err != nil || len(refused) == 0 {
			return err
		}
		if left, err = w.findHolders(ctx, s, messages, refused, all); err != nil || len(left) == 0 {
			return err
		}
	}
	return w.stored(len(left), 0)
}

// write writes those of the messages whose keys are not taken, and returns the places of the others.
func (w *Writer) write(ctx context.Context, s Session, takesTurns bool, messages []Message, places []int) (
	refused []int, err error) {
	batch, dedupKeys := make([]Message, len(places)), make([]string, len(places))
	times := make([]*time.Time, len(places))
	for i, place := range places {
		m := messages[place]
		batch[i], dedupKeys[i] = m, m.DedupKey
		if !m.ScheduledAt.IsZero() {
			times[i] = &m.ScheduledAt
		}
	}
	written, n, stored := make([]bool, len(places)), 0, int64(0)
	err = s.Query(ctx, func(scan func(...any) error) error {
		var ord int
		if err := scan(&ord, &stored); err != nil {
			return err
		}
		written[ord-1] = true
		n++
		return nil
	}, w.anyhow, append(columns(batch), dedupKeys, times, takesTurns)...)
	if err == nil {
		err = w.stored(n, stored)
	}
	for i, place := range places {
		if !written[i] {
			refused = append(refused, place)
		}
	}
	return refused, err
}

// findHolders makes duplicates of messages that were refused, and returns the places of those whose keys nobody holds.
func (w *Writer) findHolders(ctx context.Context, s Session, messages []Message, refused []int,
	all []workqueue.Enqueued) (left []int, err error) {
	topics, dedupKeys := make([]string, len(refused)), make([]string, len(refused))
	for i, place := range refused {
		topics[i], dedupKeys[i] = messages[place].Topic, messages[place].DedupKey
	}
	err = s.Query(ctx, func(scan func(...any) error) error {
		var ord int
		found := workqueue.Enqueued{Duplicate: true}
		if err := scan(&ord, &found.ID); err != nil {
			return err
		}
		all[refused[ord-1]] = found
		return nil
	}, w.find, topics, dedupKeys)
	for _, place := range refused {
		if !all[place].Duplicate {
			left = append(left, place)
		}
	}
	return left, err
}
