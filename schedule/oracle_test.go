package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/txwork/txwork/schedule"
)

// An oracle computes occurrences independently of the package. It knows the values of an expression without parsing it,
// and checks the zone's clock at every step of time instead of asking for the zone's transitions.
type oracle struct {
	expr      string
	values    [5]map[int]bool
	eitherDay bool
	hourly    bool
}

func randomOracle(rng *rand.Rand) oracle {
	var o oracle
	var texts [5]string
	for i, span := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		texts[i], o.values[i] = "*", values(span[0], span[1], 1)
		if i < 2 || rng.IntN(4) == 0 { // most schedules match all days
			texts[i], o.values[i] = randomField(rng, span[0], span[1])
		}
	}
	o.expr = strings.Join(texts[:], " ")
	o.eitherDay = texts[2][0] != '*' && texts[4][0] != '*'
	o.hourly = strings.ContainsAny(texts[1], "*/") || len(o.values[1]) == 24
	return o
}

func randomField(rng *rand.Rand, low, high int) (string, map[int]bool) {
	a := low + rng.IntN(high-low+1)
	b := a + rng.IntN(high-a+1)
	step := 1 + rng.IntN(high-low+1)
	switch rng.IntN(6) {
	case 0:
		return "*", values(low, high, 1)
	case 1:
		return fmt.Sprintf("*/%d", step), values(low, high, step)
	case 2:
		return fmt.Sprint(a), values(a, a, 1)
	case 3:
		return fmt.Sprintf("%d-%d", a, b), values(a, b, 1)
	case 4:
		return fmt.Sprintf("%d-%d/%d", a, b, step), values(a, b, step)
	default:
		list := values(a, a, 1)
		list[b], list[low], list[low+1], list[low+2] = true, true, true, true // early hours, where transitions are
		return fmt.Sprintf("%d,%d,%d-%d", a, b, low, low+2), list
	}
}

func values(low, high, step int) map[int]bool {
	set := map[int]bool{}
	for v := low; v <= high; v += step {
		set[v] = true
	}
	return set
}

func (o oracle) matches(wall time.Time) bool {
	date, weekday := o.values[2][wall.Day()], o.values[4][int(wall.Weekday())]
	day := date && weekday || o.eitherDay && (date || weekday)
	return day && o.values[0][wall.Minute()] && o.values[1][wall.Hour()] && o.values[3][int(wall.Month())] &&
		wall.Second() == 0
}

// due returns the occurrences later than after and not later than until, by checking the clock in steps.
func (o oracle) due(zone *time.Location, after, until time.Time, step time.Duration) []time.Time {
	var times []time.Time
	shown := after.Add(-3 * 24 * time.Hour)
	furthest := wallClock(shown.In(zone)) // the latest that the clock has shown
	for t := shown.Add(step); !t.After(until); t = t.Add(step) {
		wall := wallClock(t.In(zone))
		due := o.hourly && o.matches(wall)
		for ; furthest.Before(wall); furthest = furthest.Add(step) {
			due = due || !o.hourly && o.matches(furthest.Add(step))
		}
		if due && t.After(after) {
			times = append(times, t.In(zone))
		}
	}
	return times
}

func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

func parseOracle(o oracle, zone string) (*schedule.Schedule, error) {
	return schedule.Parse(o.expr, zone)
}
