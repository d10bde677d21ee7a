package schedule_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

// At any time and in any zone, occurrences are ascending, and a schedule that is formatted and parsed again has the
// same ones.
func FuzzNext(f *testing.F) {
	for _, s := range []string{
		"* * * * *", "30 2 * * MON-FRI", "*/15 9-17/2 1,15 JAN-MAR 0", "0 0 29 2 *", "0 0 */2 * 1", "5/15 * * * 7",
		"@daily", "@every 1h30m", "@every 2562047h47m16s",
		"0 0 30 2 *", "60 * * * *", "@reboot", "@every -1s", "@EVERY 1s", "1-0 * * * *", "*/0 * * * *", "1,,2 * * * *",
		"0 0 31 4,6 *", "0\t0 * * *", "@every 9223372036s", "\x00", "0 0 * * 7-1",
	} {
		f.Add(s, "Europe/Berlin", int64(1_772_000_000))
	}
	f.Add("30 2 * * *", "America/New_York", int64(1_741_500_000))
	f.Add("0 * * * *", "Australia/Lord_Howe", int64(1_743_000_000))
	f.Add("0 0 * * *", "../../etc/passwd", int64(-62_135_596_800))
	f.Add("0 0 1 1 *", "Pacific/Apia", int64(253_402_300_000))
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		s, err := schedule.Parse(expr, zone)
		if err != nil {
			return // FuzzParse tests those
		}
		same, err := schedule.Parse(s.String(), s.Zone())
		if err != nil {
			t.Fatalf("%q is %q, which is refused: %v", expr, s, err)
		}
		checkTimes(t, s, same, time.Unix(unix%300_000_000_000, 0))
	})
}

func checkTimes(t *testing.T, s, same *schedule.Schedule, after time.Time) {
	for range 3 {
		next, ok := s.Next(after)
		again, okAgain := same.Next(after)
		switch {
		case ok != okAgain || !next.Equal(again):
			t.Fatalf("%q after %v: %v, %v when read again", s, after, next, again)
		case !ok:
			return
		case !next.After(after):
			t.Fatalf("%q after %v: %v", s, after, next)
		case next.Year() > 9999:
			t.Fatalf("%q after %v: %v, which RFC 3339 cannot write", s, after, next)
		}
		after = next
	}
}
