package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, expr, zone, after, next string }{
		{"a minute", "* * * * *", "", "2026-01-01 00:00 +00:00", "2026-01-01 00:01 +00:00"},
		{"strictly after", "0 9 * * *", "", "2026-01-01 09:00 +00:00", "2026-01-02 09:00 +00:00"},
		{"a second before", "0 9 * * *", "", "2026-01-01 08:59:59 +00:00", "2026-01-01 09:00 +00:00"},
		{"a step", "*/20 * * * *", "", "2026-01-01 09:41 +00:00", "2026-01-01 10:00 +00:00"},
		{"an open step", "5/25 * * * *", "", "2026-01-01 09:31 +00:00", "2026-01-01 09:55 +00:00"},
		{"a stepped range", "0 9-17/4 * * *", "", "2026-01-01 09:30 +00:00", "2026-01-01 13:00 +00:00"},
		{"a list", "0 6,18 * * *", "", "2026-01-01 07:00 +00:00", "2026-01-01 18:00 +00:00"},
		{"names", "0 9 * feb-MAR mon", "", "2026-01-01 07:00 +00:00", "2026-02-02 09:00 +00:00"},
		{"7 is Sunday", "0 9 * * 5-7", "", "2026-01-03 10:00 +00:00", "2026-01-04 09:00 +00:00"},
		{"a step over the week goes on to 7", "0 9 * * 1/2", "", "2026-01-03 10:00 +00:00", "2026-01-04 09:00 +00:00"},
		{"both days restricted: the date", "0 0 13 * FRI", "", "2026-01-10 00:00 +00:00", "2026-01-13 00:00 +00:00"},
		{"both days restricted: the weekday", "0 0 13 * FRI", "", "2026-01-13 00:00 +00:00", "2026-01-16 00:00 +00:00"},
		{"a starred day is no restriction: odd Mondays", "0 0 */2 * 1", "", "2026-01-01 00:00 +00:00",
			"2026-01-05 00:00 +00:00"},
		{"the end of a year", "59 23 31 12 *", "", "2025-12-31 23:59 +00:00", "2026-12-31 23:59 +00:00"},
		{"29 February", "0 0 29 2 *", "", "2024-02-29 00:00 +00:00", "2028-02-29 00:00 +00:00"},
		{"29 February over a year that has none", "0 0 29 2 *", "", "2096-02-29 00:00 +00:00",
			"2104-02-29 00:00 +00:00"},
		{"29 February or a Monday of February", "0 0 29 2 1", "", "2028-02-28 00:00 +00:00", "2028-02-29 00:00 +00:00"},
		{"29 February that is a Sunday", "0 0 29 2 */7", "", "2088-02-29 00:00 +00:00", "2128-02-29 00:00 +00:00"},
		{"the 31st", "0 0 31 * *", "", "2026-03-31 00:00 +00:00", "2026-05-31 00:00 +00:00"},
		{"a quarter past every hour in Kathmandu", "15 * * * *", "Asia/Kathmandu", "2026-01-01 00:00 +00:00",
			"2026-01-01 06:15 +05:45"},
		{"midnight in Kathmandu", "@daily", "Asia/Kathmandu", "2026-01-01 00:00 +00:00", "2026-01-02 00:00 +05:45"},
		{"before the zone's first entry", "0 12 * * *", "America/New_York", "1700-01-01 00:00 +00:00",
			"1700-01-01 12:00:00 -04:56:02"},
		{"yearly", "@yearly", "", "2026-06-01 00:00 +00:00", "2027-01-01 00:00 +00:00"},
		{"annually", "@Annually", "", "2026-06-01 00:00 +00:00", "2027-01-01 00:00 +00:00"},
		{"monthly", "@monthly", "", "2026-06-01 00:00 +00:00", "2026-07-01 00:00 +00:00"},
		{"weekly", "@weekly", "", "2026-01-01 00:00 +00:00", "2026-01-04 00:00 +00:00"},
		{"midnight", "@midnight", "", "2026-01-01 00:00 +00:00", "2026-01-02 00:00 +00:00"},
		{"hourly", "@hourly", "", "2026-01-01 00:00 +00:00", "2026-01-01 01:00 +00:00"},
		{"an interval", "@every 90s", "", "2026-01-01 00:00:07 +00:00", "2026-01-01 00:01:37 +00:00"},
		{"an interval is elapsed time", "@every 24h", "America/New_York", "2026-03-07 12:00 -05:00",
			"2026-03-08 13:00 -04:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next, ok := parse(t, c.expr, c.zone).Next(at(t, c.after))
			if got := show([]time.Time{next}); !ok || got[0] != show([]time.Time{at(t, c.next)})[0] {
				t.Errorf("%s in %q after %s: %s, %v; want %s", c.expr, c.zone, c.after, got, ok, c.next)
			}
		})
	}
}

func TestNextEndsWithTheYear9999(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"* * * * *", "@every 1s", "0 0 29 2 *"} {
		s := parse(t, expr, "Asia/Tokyo")
		if next, ok := s.Next(time.Date(9999, 12, 31, 14, 59, 59, 0, time.UTC)); ok {
			t.Errorf("%s has an occurrence after the last second of 9999 in its zone: %s", expr, next)
		}
		if next, ok := s.Next(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
			t.Errorf("%s has an occurrence after the year 20000: %s", expr, next)
		}
	}
}

func TestNextOfTheZeroTimeIsInTheFirstYear(t *testing.T) {
	t.Parallel()
	next, ok := parse(t, "0 12 * * *", "").Next(time.Time{})
	if want := time.Date(1, 1, 1, 12, 0, 0, 0, time.UTC); !ok || !next.Equal(want) {
		t.Errorf("got %s, %v; want %s", next, ok, want)
	}
}

func TestAnIntervalKeepsFractionsOfASecond(t *testing.T) {
	t.Parallel()
	after := time.Date(2026, 1, 1, 0, 0, 0, 123456000, time.UTC)
	if next, _ := parse(t, "@every 5m", "").Next(after); !next.Equal(after.Add(5 * time.Minute)) {
		t.Errorf("five minutes after %s is not %s", after, next)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	s := parse(t, "0 * * * *", "")
	from, to := at(t, "2026-01-01 10:00 +00:00"), at(t, "2026-01-01 13:00 +00:00")
	all := []string{"2026-01-01 11:00 +00:00", "2026-01-01 12:00 +00:00", "2026-01-01 13:00 +00:00"}
	for limit, want := range map[int][]string{10: all, 3: all, 2: all[:2], 0: {}, -1: {}} {
		if got := show(s.Between(from, to, limit)); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
	if got := s.Between(to, from, 10); len(got) > 0 {
		t.Errorf("an empty span has %v", show(got))
	}
}

func TestAScheduleTellsWhatItIs(t *testing.T) {
	t.Parallel()
	s := parse(t, "  0\t9  * * 1-5 ", "Europe/Berlin")
	if s.String() != "0 9 * * 1-5" || s.Zone() != "Europe/Berlin" {
		t.Errorf("%q in %q", s, s.Zone())
	}
	every := parse(t, "@every 1h30m", "")
	if every.String() != "@every 1h30m" || every.Zone() != "UTC" {
		t.Errorf("%q in %q", every, every.Zone())
	}
}

// A rare occurrence takes the longest search, over months and days, in a zone whose clock changes twice a year.
func BenchmarkNextOfARareExpression(b *testing.B) {
	s, err := schedule.Parse("0 0 29 2 */7", "America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	after := time.Date(2088, 3, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		s.Next(after)
	}
}

func BenchmarkNextOfEveryMinute(b *testing.B) {
	s, err := schedule.Parse("* * * * *", "America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	after := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		after, _ = s.Next(after)
	}
}
