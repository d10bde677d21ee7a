package schedule

import (
	"sort"
	"time"
)

// newest returns the latest occurrence that is not after until: from or one of those that follow it. until is not
// before from.
func (s *Schedule) newest(from, until time.Time) time.Time {
	if s.isInterval() {
		return s.OnGrid(from, until)
	}
	// Occurrences are whole seconds. The search finds the first second from which Next leads past until: the newest
	// one.
	start := from.Unix()
	seconds := sort.Search(int(until.Unix()-start), func(n int) bool {
		next, ok := s.Next(time.Unix(start+int64(n), 0))
		return !ok || next.After(until)
	})
	if seconds == 0 {
		return from
	}
	return time.Unix(start+int64(seconds), 0).In(s.zone)
}

// count returns how many occurrences, from being the first, are before a time: at most MaxSkipped.
func (s *Schedule) count(from, before time.Time) int {
	n, ok := 0, true
	for t := from; ok && t.Before(before) && n < MaxSkipped; t, ok = s.Next(t) {
		n++
	}
	return n
}
