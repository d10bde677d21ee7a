package schedule

import (
	"slices"
	"time"
)

const (
	// DefaultGrace is what a Rule's zero Grace stands for: longer than a restart, short enough to be punctual.
	DefaultGrace = time.Minute

	// DefaultCap is what a Rule's zero Cap stands for.
	DefaultCap = 100

	// MaxFire bounds what one call of Due returns, and so a Cap.
	MaxFire = 1000

	// MaxSkipped bounds what one call of Due counts: after that many it stops counting.
	MaxSkipped = 10_000
)

// A Rule says how a schedule is turned into occurrences. The zero value fires what was missed once, lets
// occurrences overlap and has no jitter.
type Rule struct {
	Misfire Misfire
	Cap     int           // with [MisfireAll]: how many misfires are fired, the newest; 0 is [DefaultCap], at most [MaxFire]
	Grace   time.Duration // an occurrence that is no later than this is on time: Misfire leaves it alone; 0 is [DefaultGrace]
	Overlap Overlap
	Jitter  time.Duration // each occurrence is late by less than this: see [Rule.Offset]; 0 is none
}

// Check says what is wrong with a rule, as an [*Error].
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

// Due decides what a schedule owes at now, given the next nominal time that was planned: next itself, if it has
// come, and all that followed. It returns the nominal times to fire, oldest first, how many others
// are skipped, and the next nominal time to plan, which is later than now; ok is false if there is none.
//
// Occurrences that are late by no more than Grace are fired. Of the others, the misfires, [MisfireSkip] fires none;
// [MisfireOnce] fires the newest, but not if an occurrence is fired on time, which then stands for it;
// [MisfireAll] fires the newest Cap. At most [MaxFire] are fired, the newest, and at most [MaxSkipped] counted.
//
// Due knows nothing of occurrences that are still running. Whoever applies it applies Overlap to what it returns,
// and may drop occurrences that are on time because an earlier one has not ended.
//
// An interval goes on from next, so that it keeps its phase however late it is looked at.
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

// choose goes back from the newest due occurrence for as long as the rule wants more.
func (r Rule) choose(s *Schedule, next, last, now time.Time) []time.Time {
	var fire []time.Time
	misfires := 0
	for t := last; len(fire) < MaxFire; t = s.newest(next, t.Add(-1)) {
		if now.Sub(t) > r.grace() {
			if misfires++; misfires > r.wanted(len(fire)) {
				break
			}
		}
		fire = append(fire, t)
		if !t.After(next) {
			break
		}
	}
	slices.Reverse(fire)
	return fire
}

// wanted returns how many misfires are to be fired beside what is fired on time.
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
