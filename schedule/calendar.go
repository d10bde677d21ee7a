package schedule

import (
	"math/bits"
	"time"
)

// A calendar is the set of wall times that an expression's five fields match. Each field is a set with a bit for each
// value.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	eitherDay                              bool // both day fields are restricted: one is enough
}

// first returns the first matching minute that is not before from, and before until.
func (c *calendar) first(from, until time.Time) (time.Time, bool) {
	day := from.Truncate(24 * time.Hour)
	if c.matches(day) {
		if at, ok := c.timeOfDay(day, from); ok {
			return at, at.Before(until)
		}
	}
	for day = day.AddDate(0, 0, 1); day.Before(until); {
		switch {
		case !has(c.months, int(day.Month())):
			day = day.AddDate(0, 1, 1-day.Day())
		case !c.matches(day):
			day = day.AddDate(0, 0, 1)
		default:
			at, _ := c.timeOfDay(day, day)
			return at, at.Before(until)
		}
	}
	return time.Time{}, false
}

// everFires reports whether the calendar matches at all. It checks 400 years, after which dates and weekdays repeat.
func (c *calendar) everFires() bool {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, ok := c.first(from, from.AddDate(400, 0, 0))
	return ok
}

// matches reports whether the day of month, the month and the day of week match.
func (c *calendar) matches(day time.Time) bool {
	date, weekday := has(c.days, day.Day()), has(c.weekdays, int(day.Weekday()))
	if c.eitherDay {
		return has(c.months, int(day.Month())) && (date || weekday)
	}
	return has(c.months, int(day.Month())) && date && weekday
}

// timeOfDay returns the first matching minute of a day that is not before from, which is a time on that day.
func (c *calendar) timeOfDay(day, from time.Time) (time.Time, bool) {
	minutes := int((from.Sub(day) + time.Minute - 1) / time.Minute)
	hour, minute := minutes/60, minutes%60
	if has(c.hours, hour) {
		if m, ok := atLeast(c.minutes, minute); ok {
			return clock(day, hour, m), true
		}
	}
	h, ok := atLeast(c.hours, hour+1)
	if !ok {
		return time.Time{}, false
	}
	m, _ := atLeast(c.minutes, 0)
	return clock(day, h, m), true
}

func clock(day time.Time, hour, minute int) time.Time {
	return day.Add(time.Duration(hour*60+minute) * time.Minute)
}

func has(set uint64, value int) bool { return set>>value&1 != 0 }

// atLeast returns the lowest member of a set that is not below a value.
func atLeast(set uint64, value int) (int, bool) {
	rest := set >> value << value
	return bits.TrailingZeros64(rest), rest != 0
}
