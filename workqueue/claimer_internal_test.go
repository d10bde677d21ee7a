package workqueue

import (
	"testing"
	"time"
)

// PostgreSQL's calendar begins 4713 years before Christ. It writes such years differently from Go.
func TestACursorIsATimeThatPostgreSQLReads(t *testing.T) {
	t.Parallel()
	for due, want := range map[time.Time]string{
		{}: "-infinity",
		time.Date(-4712, 2, 1, 0, 0, 0, 0, time.UTC):                      "-infinity",
		time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)):          "-infinity",
		time.Date(0, 12, 31, 23, 0, 0, 1000, time.FixedZone("", -2*3600)): "0001-01-01T01:00:00.000001Z",
		time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC):                    "2026-01-02T03:04:05.000006Z",
	} {
		if got := (position{due: due}).bound(); got != want {
			t.Errorf("%v: %s, want %s", due, got, want)
		}
	}
}
