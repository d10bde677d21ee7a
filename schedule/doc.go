// Package schedule says when a cron schedule is due: rules only, no clock, no database, no goroutine.
//
//	s, err := schedule.Parse("30 2 * * MON-FRI", "America/New_York")
//	next, ok := s.Next(time.Now())
//
// # Expressions
//
// Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or JAN-DEC) and day of week
// (0-7 or SUN-SAT; 0 and 7 are Sunday). A field is a list of items, separated by commas:
//
//   - every value
//     */15    every value, in steps of 15 from the lowest
//     9       one value
//     9-17    a range, both ends included; 9-17/2 in steps of 2
//     5/15    from 5 to the highest value, in steps of 15; as day of week 5/2 is Friday and Sunday, which is 7
//
// Names may be upper or lower case. There are no seconds, no years and no L, W, # or ?. Expressions are ASCII.
//
// The descriptors @yearly (or @annually), @monthly, @weekly, @daily (or @midnight) and @hourly stand for
// the expression that begins what they name. "@every 5m" is an interval: a Go duration of whole seconds,
// at least one, counted in elapsed time from the occurrence before, whatever the clocks on the wall do.
//
// # Days
//
// A day field is restricted unless it begins with *. Where both day fields are restricted, a day that
// matches one of them is enough: "0 0 13 * 5" is every 13th and every Friday. Otherwise a day has to match
// both. This is Vixie cron's rule, so "0 0 */2 * 1" is the Mondays that are odd days of their month.
//
// # Daylight saving
//
// An hour field that contains *, or a step, or that names all 24 hours is hourly; any other is fixed: "2", "2,14", "9-17".
//
//   - A fixed schedule is due when the zone's clock first reaches or passes a matching time. Times that the
//     clock jumps over are due together, once, at the first instant after the jump; a time that it shows
//     twice is due the first time only.
//   - An hourly schedule is due whenever the clock shows a matching time: not at all for times that are
//     jumped over, twice for times that are shown twice.
//
// "30 2 * * *" in New York is due at 03:00 on the day that has no 02:30, and "0,30 2 * * *" as well: once
// on that day. Where the jump is over midnight or over a whole day (Pacific/Apia had no 30 December 2011), what
// was due then is due once at the first instant of what follows. If a matching time is that very instant,
// it is the same occurrence. The size of a jump is the zone's, whether an hour, 30 minutes, a day, or what clocks were set by in 1883.
//
// # Why there is no cron library here
//
// These rules are ours. The usual library, robfig/cron, skips a fixed time that falls into a gap and may fire
// it twice in a fold, keeps no record of what was missed, and is no longer maintained.
//
// # From a schedule to its occurrences
//
// A [Rule] says what to do with occurrences that were missed ([Misfire]) or that come while one is still
// running ([Overlap]), and spreads them in time (Jitter). [Rule.Due] is the decision; whoever keeps the
// schedule's next time durably applies it.
//
// # Concurrency
//
// A [Schedule] does not change after [Parse]. Everything here may be used from any number of goroutines.
//
// # Time zones
//
// Zones come from the machine's time zone database. A program that may run without one should import
// time/tzdata. An update of that database may move occurrences that have not been fired yet.
package schedule
