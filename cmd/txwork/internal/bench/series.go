package bench

import "time"

// A series counts events by second.
type series []int64

// add counts an event at that time after the start.
func (s *series) add(at time.Duration) {
	second := max(int(at/time.Second), 0)
	for len(*s) <= second {
		*s = append(*s, 0)
	}
	(*s)[second]++
}
