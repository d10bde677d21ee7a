package webui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever looks all the time has large tables read less often than small ones, and not so seldom that pages wait.
func TestReadingTakesAShareOfTheTime(t *testing.T) {
	t.Parallel()
	for took, seconds := range map[time.Duration]int{
		10 * time.Millisecond:  10,
		400 * time.Millisecond: 20,
		5 * time.Second:        60,
	} {
		synctest.Test(t, func(t *testing.T) {
			var begun []time.Time
			f := figures{every: DefaultRefresh}
			f.read = func(_ context.Context, _ *reading, publish func(*reading)) {
				next := &reading{At: time.Now(), Took: took}
				begun = append(begun, next.At)
				time.Sleep(took)
				publish(next)
			}
			for range 2 * 60 {
				f.begin()
				synctest.Wait()
				time.Sleep(time.Second)
			}
			if len(begun) < 2 || begun[1].Sub(begun[0]) != time.Duration(seconds)*time.Second {
				t.Errorf("readings of %v began at %v, wanted one every %d s", took, begun, seconds)
			}
			time.Sleep(took)
		})
	}
}
