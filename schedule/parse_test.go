package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, expr, zone, field, reason string }{
		{"nothing", "", "", "expression", "is empty"},
		{"blanks", " \t\n", "", "expression", "is empty"},
		{"4 fields", "* * * *", "", "expression", "has 4 fields instead of 5"},
		{"seconds", "0 * * * * *", "", "expression", "no seconds"},
		{"seconds and years", "0 * * * * * 2026", "", "expression", "no seconds and no years"},
		{"a very long one", strings.Repeat("1,", 500) + "1 * * * *", "", "expression", "longer than 1000 bytes"},
		{"a zone in front", "CRON_TZ=UTC 0 9 * * *", "", "expression", "given separately"},
		{"@reboot", "@reboot", "", "expression", "not a time"},
		{"an unknown descriptor", "@fortnightly", "", "expression", "is not a descriptor"},
		{"a descriptor and more", "@daily 5", "", "expression", "after @daily"},
		{"@every of nothing", "@every", "", "interval", "not a duration"},
		{"@every in words", "@every minute", "", "interval", "not a duration"},
		{"@every in two words", "@every 1h 30m", "", "interval", "not a duration"},
		{"@every 0s", "@every 0s", "", "interval", "less than a second"},
		{"@every -5m", "@every -5m", "", "interval", "less than a second"},
		{"@every 1ms", "@every 1ms", "", "interval", "less than a second"},
		{"@every 1500ms", "@every 1500ms", "", "interval", "whole seconds"},
		{"@every for more than there is", "@every 9999999h", "", "interval", "not a duration"},
		{"minute 60", "60 * * * *", "", "minute", "has 60, which is not between 0 and 59"},
		{"hour 24", "0 24 * * *", "", "hour", "has 24, which is not between 0 and 23"},
		{"day 0", "0 0 0 * *", "", "day-of-month", "has 0, which is not between 1 and 31"},
		{"day 32", "0 0 32 * *", "", "day-of-month", "has 32"},
		{"month 13", "0 0 * 13 *", "", "month", "has 13"},
		{"weekday 8", "0 0 * * 8", "", "day-of-week", "has 8, which is not between 0 and 7"},
		{"a huge number", "0 99999999999999999999 * * *", "", "hour", "not between 0 and 23"},
		{"a negative number", "-5 * * * *", "", "minute", "a value is missing"},
		{"a sign", "+5 * * * *", "", "minute", "is not a value"},
		{"a fraction", "1.5 * * * *", "", "minute", "is not a value"},
		{"a month where a weekday belongs", "0 0 * * JAN", "", "day-of-week", "is not a value"},
		{"a reversed range", "30-10 * * * *", "", "minute", "ends before it begins"},
		{"a range to SUN", "0 0 * * FRI-SUN", "", "day-of-week", "write 7"},
		{"a range of three", "1-2-3 * * * *", "", "minute", "is not a value"},
		{"a range without end", "5- * * * *", "", "minute", "a value is missing"},
		{"step 0", "*/0 * * * *", "", "minute", "has the step 0"},
		{"a step that is none", "*/x * * * *", "", "minute", "is not a number"},
		{"no step", "*/ * * * *", "", "minute", "is not a number"},
		{"two steps", "*/5/5 * * * *", "", "minute", "is not a number"},
		{"90 minutes", "*/90 * * * *", "", "minute", "for longer intervals use @every"},
		{"an empty item", "1,,2 * * * *", "", "minute", "a value is missing"},
		{"Quartz's ?", "0 0 ? * MON", "", "day-of-month", "of the signs only"},
		{"Quartz's L", "0 0 L * *", "", "day-of-month", "of the signs only"},
		{"Quartz's #", "0 0 * * MON#1", "", "day-of-week", "of the signs only"},
		{"digits of another script", "٣ * * * *", "", "expression", "not ASCII"},
		{"not UTF-8", "\xff * * * *", "", "expression", "not ASCII"},
		{"30 February", "0 0 30 2 *", "", "day-of-month", "never comes"},
		{"31 in months of 30", "0 0 31 4,6,9,11 *", "", "day-of-month", "never comes"},
		{"a zone that does not exist", "0 9 * * *", "Mars/Olympus", "zone", "is not in the time zone database"},
		{"an interval in a zone that does not exist", "@every 5m", "Mars/Olympus", "zone",
			"is not in the time zone database"},
		{"Local", "0 9 * * *", "Local", "zone", "depends on the machine"},
		{"a path", "0 9 * * *", "../../etc/passwd", "zone", "is not in the time zone database"},
		{"an offset", "0 9 * * *", "+02:00", "zone", "is not in the time zone database"},
		{"leap seconds", "0 9 * * *", "right/Europe/Berlin", "zone", "counts leap seconds"},
		{"a very long zone", "0 9 * * *", strings.Repeat("x", 300), "zone", "longer than 255 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := schedule.Parse(c.expr, c.zone)
			var refused *schedule.Error
			if !errors.As(err, &refused) {
				t.Fatalf("Parse(%q, %q) = %v, %v", c.expr, c.zone, s, err)
			}
			if refused.Field != c.field || !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("%q is refused for %s: %q\nwant %s: %q", c.expr, refused.Field, refused.Reason, c.field,
					c.reason)
			}
			if !strings.HasPrefix(c.expr, strings.TrimSuffix(refused.Expr, "...")) || len(err.Error()) > 700 {
				t.Errorf("the error does not quote the expression, or at length: %s", err)
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{
		"00 07 * * *", "*/60 */24 */31 */12 */7", "0-59/7 * * * *", "0 0 29 2 *", "0 0 30 2 MON", "0 0 * * sun,Mon,7",
		"0 0 * * 0-7", "0 0 * * 7", "* * * * *,1", "0 0 1-31 1-12 *", "@EVERY 1m", "@every 2h45m", "@Daily",
	} {
		if _, err := schedule.Parse(expr, "Europe/Lisbon"); err != nil {
			t.Error(err)
		}
	}
}

func TestPoliciesHaveNames(t *testing.T) {
	t.Parallel()
	for _, m := range []schedule.Misfire{schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll} {
		if got, err := schedule.ParseMisfire(m.String()); got != m || err != nil {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	for _, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBuffer} {
		if got, err := schedule.ParseOverlap(o.String()); got != o || err != nil {
			t.Errorf("%s: %v, %v", o, got, err)
		}
	}
	if m, err := schedule.ParseMisfire(""); m != schedule.MisfireOnce || err != nil {
		t.Errorf("the default misfire policy is %v, %v", m, err)
	}
	if o, err := schedule.ParseOverlap(""); o != schedule.OverlapAllow || err != nil {
		t.Errorf("the default overlap policy is %v, %v", o, err)
	}
	for _, name := range []string{"Skip", "never", "invalid"} {
		_, misfire := schedule.ParseMisfire(name)
		_, overlap := schedule.ParseOverlap(name)
		var refused *schedule.Error
		if !errors.As(misfire, &refused) || !errors.As(overlap, &refused) {
			t.Errorf("%q is taken: %v, %v", name, misfire, overlap)
		}
	}
	if got := schedule.Misfire(9).String() + schedule.Overlap(9).String(); got != "invalidinvalid" {
		t.Errorf("values out of range print as %s", got)
	}
}

// A parsed expression can be formatted and parsed again, and its occurrences are ascending.
func FuzzParse(f *testing.F) {
	for _, expr := range []string{"* * * * *", "*/5 9-17 * JAN-MAR MON-FRI", "0 0 29 2 *", "@daily", "@every 5m",
		"0 0 30 2 *", "1,,2 * * * *", "@every -1s"} {
		f.Add(expr, "America/New_York")
	}
	f.Add("0 0 * * *", "../x")
	f.Fuzz(func(t *testing.T, expr, zone string) {
		s, err := schedule.Parse(expr, zone)
		var refused *schedule.Error
		if err != nil {
			if !errors.As(err, &refused) || refused.Field == "" || refused.Reason == "" || s != nil {
				t.Fatalf("Parse(%q, %q) = %v, %#v", expr, zone, s, err)
			}
			return
		}
		again, err := schedule.Parse(s.String(), s.Zone())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written as %q, which is %v, %v", expr, s, again, err)
		}
		after := time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC)
		for range 3 {
			next, ok := s.Next(after)
			same, sameOK := again.Next(after)
			if !ok || !next.After(after) || !same.Equal(next) || !sameOK {
				t.Fatalf("%q after %s: %s, %v, and %s, %v", expr, after, next, ok, same, sameOK)
			}
			after = next
		}
	})
}
