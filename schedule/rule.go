package schedule

import (
	"iter"
	"slices"
	"time"
)

const (
	// DefaultGrace is the Grace of a Rule that sets none: longer than a restart, and short enough to be punctual.
	DefaultGrace = time.Minute

	// DefaultCap is the Cap of a Rule that sets none.
	DefaultCap = 100

	// MaxFire is how many occurrences one call of Due returns at most, and so the largest Cap.
	MaxFire = 1000

	// MaxSkipped is how far one call of Due counts skipped occurrences.
	MaxSkipped = 10_000
)

// A Rule turns a schedule into occurrences. With the zero value, missed occurrences fire once, occurrences may overlap,
// and there is no jitter.
type Rule struct {
	Misfire Misfire
	// with [MisfireAll]: how many misfires are fired, the newest; 0 is [DefaultCap], at most [MaxFire]
	Cap int
	// an occurrence that is no later than this is on time: Misfire leaves it alone; 0 is [DefaultGrace]
	Grace   time.Duration
	Overlap Overlap
	Jitter  time.Duration // each occurrence is late by less than this: see [Rule.Offset]; 0 is none
}

// Check returns what is wrong with a rule, as an [*Error].
func (r Rule) Check() error {
	switch {
	case int(r.Misfire) >= len(misfires):
		return refuse("", "misfire", "is not a known policy: %d", r.Misfire)
	case int(r.Overlap) >= len(overlaps):
		return refuse("", "overlap", "is not a known policy: %d", r.Overlap)
	case r.Cap < 0 || r.Cap > MaxFire:
		return refuse("", "cap", "is %d, which is not between 0 and %d", r.Cap, MaxFire)
	case r.Grace < 0:
		return refuse("", "grace", "is negative: %s", r.Grace)
	case r.Grace%time.Microsecond != 0:
		return refuse("", "grace", "is %s, it must be whole microseconds, which is what the database keeps", r.Grace)
	case r.Jitter < 0:
		return refuse("", "jitter", "is negative: %s", r.Jitter)
	case r.Jitter%time.Microsecond != 0:
		return refuse("", "jitter", "is %s, it must be whole microseconds, which is what the database keeps", r.Jitter)
	}
	return nil
}

// Due computes which occurrences of a schedule are due at now, given the next nominal time that was planned: next
// itself, if it has come, and all that follow it. It returns the nominal times to fire, oldest first, how many others
// are skipped, and the next nominal time to plan, which is later than now. If there is none, ok is false.
//
// Occurrences that are late by no more than Grace fire. The others are misfires. With [MisfireSkip] none of them fires.
// With [MisfireOnce] the newest fires, unless an occurrence fires on time, which then stands for it. With [MisfireAll]
// the newest Cap of them fire. At most [MaxFire] occurrences fire, the newest, and at most [MaxSkipped] are counted.
//
// Due does not know which occurrences are still running. The caller applies Overlap to the result, and may drop
// occurrences that are on time because an earlier one has not ended.
//
// An interval continues from next, so it keeps its phase however late Due is called.
func (r Rule) Due(s *Schedule, next, now time.Time) (fire []time.Time, skipped int, following time.Time, ok bool) {
	if next.After(now) {
		return nil, 0, next, true
	}
	last := s.newest(next, now)
	fire = r.choose(s, next, last, now)
	following, ok = s.Next(last)
	if len(fire) > 0 {
		return fire, s.count(next, fire[0]), following, ok
	}
	return nil, s.count(next, last.Add(1)), following, ok
}

// Choose is [Rule.Due] for occurrences that have been computed before: due are nominal times that have come, oldest
// first. It returns those to fire, and how many others are skipped.
func (r Rule) Choose(due []time.Time, now time.Time) (fire []time.Time, skipped int) {
	fire = r.newestFirst(now, func(yield func(time.Time) bool) {
		for _, t := range slices.Backward(due) {
			if !yield(t) {
				return
			}
		}
	})
	return fire, len(due) - len(fire)
}

// choose returns the occurrences to fire, oldest first.
func (r Rule) choose(s *Schedule, next, last, now time.Time) []time.Time {
	return r.newestFirst(now, func(yield func(time.Time) bool) {
		for t := last; yield(t) && t.After(next); {
			t = s.newest(next, t.Add(-1))
		}
	})
}

// newestFirst returns the occurrences to fire, oldest first: it goes back from the newest due one for as long as the
// rule wants more.
func (r Rule) newestFirst(now time.Time, due iter.Seq[time.Time]) []time.Time {
	var fire []time.Time
	misfires := 0
	for t := range due {
		if now.Sub(t) > r.grace() {
			if misfires++; misfires > r.wanted(len(fire)) {
				break
			}
		}
		if fire = append(fire, t); len(fire) == MaxFire {
			break
		}
	}
	slices.Reverse(fire)
	return fire
}

// wanted returns how many misfires fire in addition to those that are on time.
func (r Rule) wanted(fired int) int {
	switch {
	case r.Misfire == MisfireAll && r.Cap == 0:
		return DefaultCap
	case r.Misfire == MisfireAll:
		return r.Cap
	case r.Misfire == MisfireOnce && fired == 0:
		return 1
	}
	return 0
}

func (r Rule) grace() time.Duration {
	if r.Grace == 0 {
		return DefaultGrace
	}
	return r.Grace
}
