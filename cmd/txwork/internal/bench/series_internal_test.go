package bench

import (
	"slices"
	"testing"
	"time"
)

func TestASeriesCountsBySecond(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at   []time.Duration
		want series
	}{
		"nothing":                     {nil, nil},
		"a second ends before itself": {[]time.Duration{0, 999_999_999, time.Second}, series{2, 1}},
		"quiet seconds are zero":      {[]time.Duration{3500 * time.Millisecond, 0}, series{1, 0, 0, 1}},
		"clocks may differ a little":  {[]time.Duration{-time.Millisecond}, series{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var s series
			for _, at := range test.at {
				s.add(at)
			}
			if !slices.Equal(s, test.want) {
				t.Errorf("got %v, want %v", s, test.want)
			}
		})
	}
}

func TestATallyTellsItsTotal(t *testing.T) {
	t.Parallel()
	tally := newTally(4)
	for range 3 {
		tally.add()
	}
	select {
	case <-tally.all:
		t.Fatal("three of four are all")
	default:
	}
	if tally.lastToFirst() != 0 {
		t.Error("quarters are compared before the last has ended")
	}
	tally.add()
	<-tally.all
	tally.quarters = [4]time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second, 8 * time.Second}
	if got := tally.lastToFirst(); got != 0.5 {
		t.Errorf("the last quarter took 4 s, the first 2: want 0.5, got %v", got)
	}
	tally.quarters = [4]time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second,
		4*time.Second + shortQuarter - 1}
	if got := tally.lastToFirst(); got != 0 {
		t.Errorf("the last quarter was too short to be compared, got %v", got)
	}
	if tally.add(); tally.count() != 5 {
		t.Errorf("counted %d of 5", tally.count())
	}
}

func TestFailuresAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]int{0: 0, 0.1: 100, 0.25: 250, 1: 1000} {
		f := failing{share: share}
		failed := 0
		for range 1000 {
			if f.attempt(1) != nil {
				failed++
			}
			if f.attempt(2) != nil {
				t.Fatal("a second attempt failed")
			}
		}
		if failed != want || f.started.Load() != 2000 {
			t.Errorf("share %v: %d of 1000 failed, want %d", share, failed, want)
		}
	}
}
