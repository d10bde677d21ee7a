package periodic_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

func TestOverlap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		overlap            schedule.Overlap
		atOnce, afterwards int
		skipped            int
	}{
		"allow":  {schedule.OverlapAllow, 3, 3, 0},
		"skip":   {schedule.OverlapSkip, 1, 1, 2},
		"buffer": {schedule.OverlapBuffer, 1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{Misfire: schedule.MisfireAll, Overlap: c.overlap}))
			f.scheduler()
			for range 3 { // three in a row, and none of them ends
				f.missed("s", time.Hour+time.Minute) // another nominal time whenever it is called
				f.decided("s")
			}
			if n := len(f.runs("s")); n != c.atOnce {
				t.Errorf("%d runs, want %d", n, c.atOnce)
			}
			if got := f.get("s"); got.Skipped != int64(c.skipped) ||
				(got.BufferedAt != nil) != (c.afterwards > c.atOnce) {
				t.Errorf("got %+v", got)
			}
			f.exec("UPDATE runs SET ended = true")
			f.until("what was held back is written", func() bool {
				return len(f.runs("s")) == c.afterwards &&
					f.get("s").BufferedAt == nil
			})
			f.exec("UPDATE runs SET ended = true")
			f.missed("s", time.Hour+time.Minute)
			f.decided("s")
			if got := f.get("s"); got.Fired != int64(c.afterwards+1) || got.Skipped != int64(c.skipped) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The new policy decides about a buffered occurrence.
func TestAPolicyThatChangesWhileAnOccurrenceWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overlap        schedule.Overlap
		fired, skipped int64
	}{{schedule.OverlapAllow, 2, 0}, {schedule.OverlapSkip, 1, 1}} {
		t.Run(c.overlap.String(), func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{Overlap: schedule.OverlapBuffer}))
			f.scheduler()
			for range 2 {
				f.missed("s", time.Hour+time.Minute)
				f.decided("s")
			}
			f.put(hourly(schedule.Rule{Overlap: c.overlap}))
			f.until("nothing waits", func() bool { return f.get("s").BufferedAt == nil })
			if got := f.get("s"); got.Fired != c.fired || got.Skipped != c.skipped {
				t.Errorf("got %+v", got)
			}
		})
	}
}
