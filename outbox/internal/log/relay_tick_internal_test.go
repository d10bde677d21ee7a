package log

import (
	"testing"
	"time"
)

// A keeper ticks for as long as a transaction is open that relied on it, and costs less the longer that is. Who asks
// for a tick gets it at once.
func TestAKeeperWithoutNewsTicksLessAndLess(t *testing.T) {
	t.Parallel()
	for quiet, want := range map[time.Duration]time.Duration{
		0:               tickEvery,
		promised:        promised / 10,
		5 * time.Second: 500 * time.Millisecond,
		time.Hour:       rarestTicks,
	} {
		last := time.Now()
		k := ticking{last: last, news: last.Add(-quiet), every: tickEvery}
		k.keeps.Store(1)
		got := k.atMost(time.Minute)
		if passed := time.Since(last); got > want || got < want-passed {
			t.Errorf("%v after the last news it pauses for %v, want %v", quiet, got, want)
		}
		k.ticks.Store(true)
		if ticks, _ := k.isDue(false); !ticks || k.rest() > tickEvery {
			t.Errorf("%v after the last news it lets an announcement wait for %v", quiet, k.rest())
		}
	}
}
