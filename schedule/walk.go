package schedule

import (
	"sort"
	"time"
)

// newest returns the latest of from and the occurrences that follow it, up to a time that is not before from.
func (s *Schedule) newest(from, until time.Time) time.Time {
	if s.IsInterval() {
		return from.Add(until.Sub(from) / s.interval * s.interval)
	}
	// Occurrences are whole seconds, and the last one is where Next first leads past the end.
	start := time.Unix(from.Unix(), 0)
	seconds := sort.Search(int(until.Unix()-from.Unix()), func(n int) bool {
		next, ok := s.Next(start.Add(time.Duration(n) * time.Second))
		return !ok || next.After(until)
	})
	if seconds == 0 {
		return from
	}
	return start.Add(time.Duration(seconds) * time.Second).In(s.zone)
}

// count returns how many of from and the occurrences that follow it are before a time: MaxSkipped at most.
func (s *Schedule) count(from, before time.Time) int {
	n, ok := 0, true
	for t := from; ok && t.Before(before) && n < MaxSkipped; t, ok = s.Next(t) {
		n++
	}
	return n
}
