package schedule

import "time"

// A Schedule is a parsed expression in its zone.
type Schedule struct {
	expr     string
	zone     *time.Location
	calendar calendar
	fixed    bool          // the hour field is fixed: see the package's rules of daylight saving
	interval time.Duration // of "@every", otherwise zero
}

// String returns the expression, with single spaces.
func (s *Schedule) String() string { return s.expr }

// Zone returns the zone's IANA name.
func (s *Schedule) Zone() string { return s.zone.String() }

// isInterval reports whether the schedule is an "@every".
func (s *Schedule) isInterval() bool { return s.interval > 0 }

// Equal reports whether two schedules mean the same, however they are written: the same fields in the same zone, or the
// same interval. Zones are the same if their names are. It may report false for texts with the same times.
func (s *Schedule) Equal(other *Schedule) bool {
	if s.isInterval() || other.isInterval() {
		return s.interval == other.interval // its times are the same in every zone
	}
	return s.calendar == other.calendar && s.fixed == other.fixed && s.Zone() == other.Zone()
}

// The range of years in which schedules are due, which RFC 3339 can represent.
var (
	firstYear = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	afterLast = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Next returns the first occurrence strictly after a time, in the schedule's zone. It returns false if there is none
// until the end of the year 9999. An interval counts from the given time, to the nanosecond. All other occurrences are
// whole seconds, and whole minutes of the zone's clock unless the clock skipped the minute.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	if after.Before(firstYear) {
		after = firstYear
	}
	next, ok := after.Round(0).Add(s.interval), true
	if !s.isInterval() {
		next, ok = s.search(after)
	}
	if !ok || asWall(next.In(s.zone)).Compare(afterLast) >= 0 {
		return time.Time{}, false
	}
	return next.In(s.zone), true
}

// OnGrid returns the last time of an interval that is not after t, where anchor is one of the interval's times. Both
// may be any time. It returns t if the schedule is not an interval.
func (s *Schedule) OnGrid(anchor, t time.Time) time.Time {
	if !s.isInterval() {
		return t
	}
	// In seconds, since a Duration cannot exceed 292 years.
	elapsed, step := t.Unix()-anchor.Unix(), int64(s.interval/time.Second)
	if t.Nanosecond() < anchor.Nanosecond() {
		elapsed--
	}
	steps := elapsed / step
	if elapsed%step < 0 {
		steps--
	}
	return time.Unix(anchor.Unix()+steps*step, int64(anchor.Nanosecond())).In(anchor.Location())
}

// Between returns the occurrences later than after and not later than until: the first limit of them.
func (s *Schedule) Between(after, until time.Time, limit int) []time.Time {
	var times []time.Time
	for len(times) < limit {
		next, ok := s.Next(after)
		if !ok || next.After(until) {
			break
		}
		times = append(times, next)
		after = next
	}
	return times
}

// search goes from one stretch of the zone to the next, and skips those in which nothing can be due.
func (s *Schedule) search(after time.Time) (time.Time, bool) {
	from := time.Unix(after.Unix()+1, 0).In(s.zone)
	for {
		// From here on, no wall time is earlier than this.
		wall, ok := s.calendar.first(from.UTC().Add(-maxOffset), afterLast)
		if !ok {
			return time.Time{}, false
		}
		if earliest := wall.Add(-maxOffset); earliest.After(from) {
			from = earliest.In(s.zone)
		}
		here := stretchAt(from)
		if at, ok := s.within(here, from); ok || here.end.IsZero() {
			return at, ok
		}
		from = here.end
	}
}

// within returns the first occurrence in a stretch that is not before from, which is a time in the stretch.
func (s *Schedule) within(here stretch, from time.Time) (time.Time, bool) {
	wall := here.wall(from)
	if s.fixed {
		reached := here.reached()
		if from.Equal(here.start) && s.jumpedOver(reached, wall) {
			return from, true
		}
		if wall.Before(reached) {
			wall = reached // what is shown for the second time
		}
	}
	until := afterLast
	if !here.end.IsZero() {
		until = here.wall(here.end)
	}
	due, ok := s.calendar.first(wall, until)
	return due.Add(-here.offset), ok
}

// jumpedOver reports whether one of the wall times matches that the clock skipped between from and to.
func (s *Schedule) jumpedOver(from, to time.Time) bool {
	_, ok := s.calendar.first(from, to)
	return ok
}
