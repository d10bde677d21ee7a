package survey

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
	Longest       float64 // for how long a row has run, in seconds; 0 if no lease was renewed yet
	Long          int64   // that have run for longer than asked for
	Overdue       int64   // that have run for longer than they should
	More          bool    `db:"-"` // the lane has more rows than were seen, so the numbers of rows are lower bounds
}

// Heads returns the heads of all lanes. If these do not show all due rows, it looks once more at up to [RunningRows],
// so that rows in progress are found behind many that are ready. If there is no time for that, the first look counts.
// In a table without lanes the second is made first, and the other one if there was no time for it.
func Heads(ctx context.Context, r Reader, f *Facts, a Asked) ([]Head, error) {
	read := func(f *Facts) ([]Head, error) {
		return rows[Head](ctx, r, "heads", f, a.Expired.Seconds(), a.Long.Seconds(), a.Within.Seconds())
	}
	if len(f.LaneNames) > 0 {
		return fill(f, f.MaxRunning(), read)
	}
	all := *f
	all.LaneRows = f.MaxRunning()
	heads, err := read(&all)
	if tooSlow(err) {
		all.LaneRows = f.HeadRows
		heads, err = read(&all)
	}
	all.cut(heads)
	return heads, err
}

// Asked says which rows of a [Head] are counted.
type Asked struct {
	Expired time.Duration // how long ago the lease expired
	Long    time.Duration // for how long the row has run
	Within  time.Duration // for how long a row may run if its worker did not say
}

// fill reads the heads of all lanes, and once more if some were cut off: what the others did not need of the total goes
// to these in equal parts.
func fill(f *Facts, total int, read func(*Facts) ([]Head, error)) ([]Head, error) {
	heads, err := read(f)
	more := f.cut(heads)
	if more == 0 {
		return heads, err
	}
	again := *f
	for _, h := range heads {
		if !h.More {
			total -= int(h.Seen)
		}
	}
	if again.LaneRows = total / more; again.LaneRows <= f.share(len(heads)) {
		return heads, nil
	}
	all, err := read(&again)
	if tooSlow(err) {
		return heads, nil
	}
	again.cut(all)
	return all, err
}

// tooSlow tells whether a statement has reached its limit.
func tooSlow(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "57014"
}

// share is how many rows are read of each of so many lanes.
func (f *Facts) share(lanes int) int {
	switch {
	case f.LaneRows > 0:
		return f.LaneRows
	case len(f.LaneNames) == 0:
		return f.HeadRows
	}
	return max(f.HeadRows/max(lanes, 1), leastShare)
}

// cut marks the heads that may not show all rows of their lane, and counts them.
func (f *Facts) cut(heads []Head) (more int) {
	for i := range heads {
		if heads[i].More = heads[i].Seen >= int64(f.share(len(heads))); heads[i].More {
			more++
		}
	}
	return more
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
		o.Long, o.Overdue, o.Longest = o.Long+h.Long, o.Overdue+h.Overdue, max(o.Longest, h.Longest)
		o.More = o.More || h.More
		o.OldestReady, o.OldestExpired = max(o.OldestReady, h.OldestReady), max(o.OldestExpired, h.OldestExpired)
	}
	return all
}
