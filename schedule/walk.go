package schedule

import (
	"sort"
	"time"
)

// newest returns the latest of from and the occurrences that follow it, up to a time that is not before from.
func (s *Schedule) newest(from, until time.Time) time.Time {
	if s.IsInterval() {
		return s.OnGrid(from, until)
	}
	// Occurrences are whole seconds, and the last one is where Next first leads past the end.
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

// count returns how many of from and the occurrences that follow it are before a time: MaxSkipped at most.
func (s *Schedule) count(from, before time.Time) int {
	n, ok := 0, true
	for t := from; ok && t.Before(before) && n < MaxSkipped; t, ok = s.Next(t) {
		n++
	}
	return n
}
