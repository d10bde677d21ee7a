package schedule_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var zones = []string{
	"UTC", "America/New_York", "America/Chicago", "America/Havana", "America/Nuuk", "America/Sao_Paulo",
	"America/St_Johns", "America/Juneau",
	"Europe/London", "Europe/Dublin", "Europe/Berlin", "Europe/Moscow", "Africa/Cairo", "Africa/Casablanca",
	"Africa/Monrovia", "Asia/Kathmandu",
	"Asia/Tehran", "Asia/Gaza", "Asia/Beirut", "Asia/Pyongyang", "Australia/Lord_Howe", "Australia/Sydney",
	"Pacific/Apia", "Pacific/Chatham",
	"Pacific/Kwajalein", "Antarctica/Troll", "Antarctica/Casey",
}

// randomTime is near a transition of the zone as often as not.
func randomTime(rng *rand.Rand, zone *time.Location) time.Time {
	first, last := time.Date(1960, 1, 1, 0, 0, 0, 0, zone).Unix(), time.Date(2060, 1, 1, 0, 0, 0, 0, zone).Unix()
	t := time.Unix(first+rng.Int64N(last-first), 0).In(zone)
	if _, end := t.ZoneBounds(); rng.IntN(4) > 0 && !end.IsZero() {
		t = end.Add(-time.Duration(rng.IntN(72*3600)) * time.Second)
	}
	return t
}

// For random expressions, zones and times, the occurrences of some days are those that the oracle finds.
func TestScheduleAgreesWithTheClock(t *testing.T) {
	t.Parallel()
	const cases = 1500
	for seed := range uint64(cases) {
		rng := rand.New(rand.NewPCG(seed, 3))
		o := randomOracle(rng)
		s, err := parseOracle(o, zones[rng.IntN(len(zones))])
		if err != nil {
			continue // a date that never occurs
		}
		zone, _ := time.LoadLocation(s.Zone())
		after := randomTime(rng, zone)
		until := after.Add(time.Duration(rng.IntN(96)) * time.Hour)
		step := time.Minute
		if after.Year() < 1973 { // Monrovia's clock was 44 minutes and 30 seconds behind until 1972
			step, until = 30*time.Second, after.Add(48*time.Hour)
		}
		got, want := s.Between(after, until, 1<<20), o.due(zone, after.Truncate(step), until, step)
		want = slices.DeleteFunc(want, func(t time.Time) bool { return !t.After(after) })
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("seed %d: %s in %s after %s until %s\ngot  %q\nwant %q", seed, s, s.Zone(), after, until,
				show(got), show(want))
		}
	}
}

// Properties of all occurrences, however far apart they are.
func TestOccurrencesGoForwardAndMatch(t *testing.T) {
	t.Parallel()
	const cases = 4000
	for seed := range uint64(cases) {
		rng := rand.New(rand.NewPCG(seed, 4))
		o := randomOracle(rng)
		s, err := parseOracle(o, zones[rng.IntN(len(zones))])
		if err != nil {
			continue
		}
		zone, _ := time.LoadLocation(s.Zone())
		after := randomTime(rng, zone)
		shown := map[string]bool{}
		for range 20 {
			next, ok := s.Next(after)
			if !ok || !next.After(after) {
				t.Fatalf("seed %d: %s in %s after %s: %s, %v", seed, s, s.Zone(), after, next, ok)
			}
			if start, _ := next.ZoneBounds(); !o.matches(wallClock(next)) && (o.hourly || !next.Equal(start)) {
				t.Fatalf("seed %d: %s in %s is due at %s, which does not match", seed, s, s.Zone(), next)
			}
			if minute := next.Format("2006-01-02 15:04"); shown[minute] && !o.hourly {
				t.Fatalf("seed %d: %s in %s is due twice at %s", seed, s, s.Zone(), minute)
			} else {
				shown[minute] = true
			}
			after = next
		}
	}
}
