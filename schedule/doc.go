// Package schedule computes when a cron schedule is due. It contains rules only: no clock, no database, no goroutine.
//
//	s, err := schedule.Parse("30 2 * * MON-FRI", "America/New_York")
//	next, ok := s.Next(time.Now())
//
// # Expressions
//
// An expression has five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or JAN-DEC) and day of
// week (0-7 or SUN-SAT; 0 and 7 are Sunday). A field is a list of items, separated by commas:
//
//	9       one value
//	*       every value
//	*/15    every value, in steps of 15 from the lowest
//	9-17    a range, both ends included; 9-17/2 in steps of 2
//	5/15    from 5 to the highest value, in steps of 15; as day of week, 5/2 is Friday and Sunday, which is 7
//
// Names may be in upper or lower case. There are no seconds, no years and no L, W, # or ?. Expressions are ASCII.
//
// The descriptors @yearly (or @annually), @monthly, @weekly, @daily (or @midnight) and @hourly stand for the expression
// that is due at the start of the period which they name. "@every 5m" is an interval: a Go duration of whole seconds,
// at least one. It is counted in elapsed time from the previous occurrence, and does not depend on clock changes.
//
// # Days
//
// A day field is restricted unless it begins with *. If both day fields are restricted, a day needs to match only one
// of them: "0 0 13 * 5" is every 13th and every Friday. Otherwise a day has to match both. This is the rule of Vixie
// cron, so "0 0 */2 * 1" is every Monday that is an odd day of its month.
//
// # Daylight saving
//
// A schedule is hourly if its hour field contains * or a step, or names all 24 hours. All others, such as "2", "2,14"
// and "9-17", are fixed.
//
//   - A fixed schedule is due when the zone's clock first reaches or passes a matching time. Times that the clock skips
//     are due once, together, at the first instant after the gap. A time that the clock shows twice is due the first
//     time only.
//   - An hourly schedule is due whenever the clock shows a matching time: not at all for skipped times, and twice for
//     times that are shown twice.
//
// In New York, "30 2 * * *" is due at 03:00 on the day that has no 02:30. "0,30 2 * * *" is due then as well, and only
// once on that day. If the clock skips midnight or a whole day (Pacific/Apia had no 30 December 2011), the skipped
// times are due once at the first instant after the gap. If that instant is itself a matching time, it is the same
// occurrence. The zone determines the size of the gap: an hour, 30 minutes, a day, or the minutes by which clocks were
// set in 1883.
//
// # Why no cron library is used
//
// These rules are specific to this package. The usual library, robfig/cron, skips a fixed time that falls into a gap
// and may fire it twice when the clock goes back, keeps no record of what was missed, and is no longer maintained.
//
// # From a schedule to its occurrences
//
// A [Rule] decides what happens to occurrences that were missed ([Misfire]), and to those that become due while an
// earlier one is running ([Overlap]), and spreads occurrences in time (Jitter). [Rule.Due] makes the decision. The
// caller, which stores the schedule's next time durably, applies it.
//
// # Concurrency
//
// A [Schedule] does not change after [Parse]. Everything in this package is safe for concurrent use.
//
// # Time zones
//
// Zones come from the time zone database of the machine. Import time/tzdata in programs that may run on a machine
// without one. An update of that database may move occurrences that have not fired yet.
package schedule
