package survey

import (
	"context"
	"slices"
	"time"
)

// A Head is the beginning of one lane in the claim index: its due rows, the oldest first.
type Head struct {
	Lane          []string
	Seen          int64
	Ready         int64
	Running       int64
	Expired       int64   // with a lease that expired longer ago than asked for
	OldestReady   float64 // in seconds
	OldestExpired float64 // negative if no lease has expired
}

// Heads returns the heads of all lanes.
func Heads(ctx context.Context, r Reader, f *Facts, expired time.Duration) ([]Head, error) {
	return rows[Head](ctx, r, "heads", f, expired.Seconds())
}

// Name is the value of the lane's first column.
func (h Head) Name() string {
	if len(h.Lane) == 0 {
		return ""
	}
	return h.Lane[0]
}

// ByFirst adds up the heads by the first column of the lane, so that all priorities of a queue count as one.
func ByFirst(heads []Head) (all []Head) {
	for _, h := range heads {
		if len(h.Lane) > 1 {
			h.Lane = h.Lane[:1]
		}
		i := slices.IndexFunc(all, func(o Head) bool { return slices.Equal(o.Lane, h.Lane) })
		if i < 0 {
			all = append(all, h)
			continue
		}
		o := &all[i]
		o.Seen, o.Ready, o.Running, o.Expired = o.Seen+h.Seen, o.Ready+h.Ready, o.Running+h.Running, o.Expired+h.Expired
		o.OldestReady, o.OldestExpired = max(o.OldestReady, h.OldestReady), max(o.OldestExpired, h.OldestExpired)
	}
	return all
}
