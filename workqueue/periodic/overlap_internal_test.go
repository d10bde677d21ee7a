package periodic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

// Every owed occurrence is started, buffered or counted as skipped, and none overlaps unless the policy allows it.
func TestNothingOwedGetsLost(t *testing.T) {
	t.Parallel()
	for _, policy := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBuffer} {
		for n := range 5 {
			for live := range 3 {
				owed := make([]time.Time, n)
				for i := range owed {
					owed[i] = time.Unix(int64(i), 0)
				}
				checkVerdict(t, policy, live, n, judge(policy, owed, live))
			}
		}
	}
}

func checkVerdict(t *testing.T, policy schedule.Overlap, live, owed int, v verdict) {
	t.Helper()
	kept := 0
	if v.buffered != nil {
		kept = 1
	}
	switch {
	case len(v.start)+kept+v.skipped != owed:
		t.Errorf("%v, %d live: of %d owed: %+v", policy, live, owed, v)
	case policy == schedule.OverlapAllow && len(v.start) != owed:
		t.Errorf("%v, %d live: of %d owed: %+v", policy, live, owed, v)
	case policy != schedule.OverlapAllow && len(v.start) > max(1-live, 0):
		t.Errorf("%v, %d live: started %v", policy, live, v.start)
	case policy != schedule.OverlapBuffer && kept > 0:
		t.Errorf("%v: kept %v", policy, v.buffered)
	}
}

// An interval's times are the same from wherever one counts.
func TestIntervalsKeepTheirPhase(t *testing.T) {
	t.Parallel()
	for range 2000 {
		interval := time.Duration(1+rand.IntN(100_000)) * time.Second
		s, err := schedule.Parse("@every "+interval.String(), "")
		if err != nil {
			t.Fatal(err)
		}
		anchor, at := time.Unix(rand.Int64N(4e9), 0), time.Unix(rand.Int64N(4e9), rand.Int64N(1e9))
		got := s.OnGrid(anchor, at)
		if got.After(at) || at.Sub(got) >= interval || got.Sub(anchor)%interval != 0 {
			t.Fatalf("anchor %v, every %v, at %v: got %v", anchor, interval, at, got)
		}
	}
}
