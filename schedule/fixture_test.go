package schedule_test

import (
	"flag"
	"testing"
	"time"
	_ "time/tzdata" // so that the tests need no database of the machine

	"github.com/txwork/txwork/schedule"
)

var update = flag.Bool("update", false, "write the generated files")

func parse(t testing.TB, expr, zone string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at reads a time with its offset, such as "2026-03-08 03:00 -04:00".
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02 15:04 -07:00", "2006-01-02 15:04:05 -07:00",
		"2006-01-02 15:04:05 -07:00:00"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed
		}
	}
	t.Fatalf("not a time of this test: %q", text)
	return time.Time{}
}

func show(times []time.Time) []string {
	texts := []string{}
	for _, at := range times {
		layout := "2006-01-02 15:04 -07:00"
		if _, offset := at.Zone(); at.Second() != 0 || offset%60 != 0 {
			layout = "2006-01-02 15:04:05 -07:00:00"
		}
		texts = append(texts, at.Format(layout))
	}
	return texts
}
