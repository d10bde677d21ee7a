package history_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/history"
)

// A percentile is at least what was counted, and at most 41 % more.
func TestPercentile(t *testing.T) {
	t.Parallel()
	c := history.Counts{Table: "jobs"}
	for ms := range 10_000 {
		c.Lane("q").Runs.Add(time.Duration(ms+1) * time.Millisecond)
	}
	runs := c.Take()[0].Runs
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 5 * time.Second,
		0.95: 9500 * time.Millisecond, 1: 10 * time.Second} {
		got, some := history.Percentile(runs, q)
		if !some || got < want || got > want*142/100 {
			t.Errorf("p%v is %v, want %v to 41 %% more", q*100, got, want)
		}
	}
	if _, some := history.Percentile(nil, 0.5); some {
		t.Error("a percentile of nothing")
	}
	for _, d := range []time.Duration{-time.Hour, 0, 100 * 365 * 24 * time.Hour} {
		c.Lane("q").Waits.Add(d)
	}
	waits := c.Take()[0].Waits
	if waits[0] != 2 || waits[63] != 1 {
		t.Errorf("%v, want that two are in the first bucket and one in the last", waits)
	}
	if most, _ := history.Percentile(waits, 1); most < 15*24*time.Hour {
		t.Errorf("the last bound is %v", most)
	}
}

// What is counted while another goroutine takes is taken once, and lanes beyond the bound are counted together.
func TestTake(t *testing.T) {
	t.Parallel()
	c := history.Counts{Table: "jobs"}
	var work sync.WaitGroup
	for lane := range 150 {
		work.Go(func() {
			for range 100 {
				l := c.Lane(fmt.Sprint("q", lane))
				l.Settled(history.Done)
				l.Waits.Add(time.Second)
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	var all, waits int64
	lanes := map[string]bool{}
	for last := false; ; {
		for _, r := range c.Take() {
			all, lanes[r.Lane] = all+r.Done, true
			for _, n := range r.Waits {
				waits += n
			}
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if all != 15_000 || waits != all || len(lanes) != history.MaxLanes+1 || !lanes[history.Other] {
		t.Errorf("%d rows and %d waits of %d lanes", all, waits, len(lanes))
	}
	if rows := c.Take(); len(rows) > 0 {
		t.Errorf("%v was counted, want nothing", rows)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	c := history.Counts{Table: "jobs"}
	count := func() {
		l := c.Lane("q")
		l.Settled(history.Done)
		l.Waits.Add(time.Second)
		l.Runs.Add(time.Second)
	}
	count()
	if n := testing.AllocsPerRun(1000, count); n > 0 {
		t.Errorf("counting a row allocates %v times", n)
	}
	var none *history.Counts
	none.Lane("q").Settled(history.Done)
	if got := history.Add([]int64{1, 2}, []int64{1, 1, 1}); !slices.Equal(got, []int64{2, 3, 1}) {
		t.Errorf("the sum is %v", got)
	}
}

// Two workers of a process may count the same lane of a table. The schema takes one row of it in a flush.
func TestMerge(t *testing.T) {
	got := history.Merge([]history.Row{
		{Table: "a", Lane: "x", Done: 1, Lost: 1, Waits: []int64{1}},
		{Table: "a", Lane: "y", Dead: 1},
		{Table: "b", Lane: "x", Snoozed: 1},
		{Table: "a", Lane: "x", Done: 2, Retried: 3, Cancelled: 4, Waits: []int64{1, 2}, Runs: []int64{5}},
	})
	want := []history.Row{
		{Table: "a", Lane: "x", Done: 3, Retried: 3, Cancelled: 4, Lost: 1, Waits: []int64{2, 2}, Runs: []int64{5}},
		{Table: "a", Lane: "y", Dead: 1},
		{Table: "b", Lane: "x", Snoozed: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
