package log

import (
	"testing"
	"time"
)

func TestPagesFollowTheSpeedOfTheRelay(t *testing.T) {
	t.Parallel()
	var s pageSize
	s.Store(500)
	for _, c := range []struct {
		messages int
		took     time.Duration
		want     int64
	}{
		{500, 100 * time.Millisecond, 1000},
		{999, 100 * time.Millisecond, 1000}, // not full: there is no more
		{1000, time.Second, 1000},
		{1000, 400 * time.Millisecond, 2000},
		{2000, 3 * time.Second, 1000},
		{10, 3 * time.Second, 500},
		{10, 3 * time.Second, 500}, // the least
		{8000, 0, 1000}, {8000, 0, 2000}, {8000, 0, 4000}, {8000, 0, 8000}, {8000, 0, MaxPage}, {10_000, 0, MaxPage},
	} {
		if s.follow(c.messages, c.took, 500, MaxPage); s.Load() != c.want {
			t.Errorf("after %d messages in %v: %d, want %d", c.messages, c.took, s.Load(), c.want)
		}
	}
}
