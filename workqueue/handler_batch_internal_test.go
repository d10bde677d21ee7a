package workqueue

import (
	"testing"
	"time"
)

// The pause of a batch grows while its calls fail, and not with the time since a failure that is long past.
func TestForHowLongABatchHasFailed(t *testing.T) {
	t.Parallel()
	var b batching
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct{ began, failed, want int }{
		{0, 10, 0}, {11, 20, 10}, {80, 100, 90}, // each run begins within a minute after the one before
		{161, 170, 0}, {180, 190, 20},
	} {
		if got := b.failedFor(at(c.began), at(c.failed), time.Minute); got != time.Duration(c.want)*time.Second {
			t.Errorf("a run of seconds %d to %d: failing for %v, want %d s", c.began, c.failed, got, c.want)
		}
	}
	b.failing.Store(nil) // a call has succeeded
	if got := b.failedFor(at(191), at(200), time.Minute); got != 0 {
		t.Errorf("after a success it has been failing for %v", got)
	}
}
