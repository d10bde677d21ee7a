// Package history is what a process counts of its rows, in the form in which the table history keeps it: by lane, and
// waits and runs by buckets that can be added.
package history

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxLanes is how many lanes of a table are counted apart. Other stands for the rest.
	MaxLanes = 100
	Other    = "_OTHER"

	// Buckets are how many there are. The last but one ends after 18 days.
	Buckets = 64
)

// bounds are where buckets end. They double every two buckets, so a percentile is at most 41 % too high.
var bounds = func() (all [Buckets - 1]time.Duration) {
	for i := range all {
		all[i] = time.Duration(float64(time.Millisecond) * math.Pow(2, float64(i)/2))
	}
	return all
}()

// Percentile returns the end of the bucket in which the share q of what was counted ends, such as 0.95. It is false if
// nothing was counted.
func Percentile(counts []int64, q float64) (time.Duration, bool) {
	i := reached(counts, q)
	if i < 0 {
		return 0, false
	}
	return bounds[min(i, len(bounds)-1)], true
}

// Doubled tells whether the share q of one count ends at more than twice the time of another for certain, although
// buckets are wide.
func Doubled(now, before []int64, q float64) bool {
	const twice = 3 // buckets: all of the third begins after twice the end of the first
	b := reached(before, q)
	return b >= 0 && reached(now, q) >= b+twice
}

// Sum is how much was counted.
func Sum(counts []int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// reached is the bucket in which the share q of what was counted ends; -1 if nothing was.
func reached(counts []int64, q float64) int {
	all, seen := Sum(counts), int64(0)
	rank := max(int64(math.Ceil(q*float64(all))), 1)
	for i, n := range counts {
		if seen += n; seen >= rank {
			return i
		}
	}
	return -1
}

// Add adds counts by buckets.
func Add(to, more []int64) []int64 {
	for len(to) < len(more) {
		to = append(to, 0)
	}
	for i, n := range more {
		to[i] += n
	}
	return to
}

// Merge makes one row of those of the same lane, of which the schema takes one in a flush.
func Merge(rows []Row) (merged []Row) {
	at := map[[2]string]int{}
	for _, r := range rows {
		lane := [2]string{r.Table, r.Lane}
		i, ok := at[lane]
		if !ok {
			at[lane] = len(merged)
			merged = append(merged, r)
			continue
		}
		m := &merged[i]
		m.Done, m.Retried, m.Dead = m.Done+r.Done, m.Retried+r.Retried, m.Dead+r.Dead
		m.Snoozed, m.Cancelled, m.Lost = m.Snoozed+r.Snoozed, m.Cancelled+r.Cancelled, m.Lost+r.Lost
		m.Waits, m.Runs = Add(m.Waits, r.Waits), Add(m.Runs, r.Runs)
	}
	return merged
}

// An Outcome is what became of a row that was settled.
type Outcome int

const (
	Done Outcome = iota
	Retried
	Dead
	Snoozed
	Cancelled
	Lost
	outcomes
)

// Counts are those of a table. Nil counts are of no table, and nobody takes them.
type Counts struct {
	Table string

	mu    sync.RWMutex
	lanes map[string]*Lane
}

// A Lane is what was counted of a lane.
type Lane struct {
	Waits Histogram // for how long rows could have been claimed before their handlers began
	Runs  Histogram // for how long handlers ran

	outcomes [outcomes]atomic.Int64
}

// Settled counts a row.
func (l *Lane) Settled(o Outcome) { l.outcomes[o].Add(1) }

// A Histogram counts times by buckets.
type Histogram [Buckets]atomic.Int64

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], d)
	h[i].Add(1)
}

// take returns the counts up to the last that is not 0, and begins anew.
func (h *Histogram) take() []int64 {
	var all [Buckets]int64
	used := 0
	for i := range h {
		if all[i] = h[i].Swap(0); all[i] > 0 {
			used = i + 1
		}
	}
	return slices.Clone(all[:used])
}

// untaken is every lane of nil counts.
var untaken Lane

// Lane returns a lane of the table, in which its rows are counted from then on.
func (c *Counts) Lane(name string) *Lane {
	if c == nil {
		return &untaken
	}
	c.mu.RLock()
	l := c.lanes[name]
	c.mu.RUnlock()
	if l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes == nil {
		c.lanes = map[string]*Lane{}
	}
	if c.lanes[name] == nil && len(c.lanes) >= MaxLanes {
		name = Other
	}
	if c.lanes[name] == nil {
		c.lanes[name] = new(Lane)
	}
	return c.lanes[name]
}

// A Row is what was counted of a lane, as it is sent.
type Row struct {
	Table     string  `json:"table"`
	Lane      string  `json:"lane"`
	Done      int64   `json:"done,omitempty"`
	Retried   int64   `json:"retried,omitempty"`
	Dead      int64   `json:"dead,omitempty"`
	Snoozed   int64   `json:"snoozed,omitempty"`
	Cancelled int64   `json:"cancelled,omitempty"`
	Lost      int64   `json:"lost,omitempty"`
	Waits     []int64 `json:"waits,omitempty"`
	Runs      []int64 `json:"runs,omitempty"`
}

// Take returns what was counted since it was last called, without lanes that counted nothing.
func (c *Counts) Take() (rows []Row) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, l := range c.lanes {
		r := Row{Table: c.Table, Lane: name, Waits: l.Waits.take(), Runs: l.Runs.take()}
		some := len(r.Waits)+len(r.Runs) > 0
		for o, to := range []*int64{&r.Done, &r.Retried, &r.Dead, &r.Snoozed, &r.Cancelled, &r.Lost} {
			*to = l.outcomes[o].Swap(0)
			some = some || *to > 0
		}
		if some {
			rows = append(rows, r)
		}
	}
	return rows
}
