package flow

import (
	"testing"
	"testing/synctest"
	"time"
)

// takeAll takes the rows that may start now.
func takeAll(b *Buffer[*row]) (taken []*row) {
	for {
		b.mu.Lock()
		more := b.startable() >= 0
		b.mu.Unlock()
		if !more {
			return taken
		}
		row, _, _ := b.Take()
		taken = append(taken, row)
	}
}

// A topic begins with half of the places if it is the only one, and has nearly all of them once its handlers succeed.
func TestATopicTakesMorePlacesAsItSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(16, 100)
		b.Add(rowsOf("mail", 100), 100)
		running := takeAll(b)
		if len(running) != 8 {
			t.Errorf("%d rows of an unknown topic start, want half of 16", len(running))
		}
		for _, row := range running {
			b.Finished(row, true)
		}
		if n := len(takeAll(b)); n != 14 {
			t.Errorf("%d rows of a topic that succeeds start, want all but an eighth of 16", n)
		}
	})
}

// A topic whose handlers hang leaves places for others. Its rows that wait are put back, and further ones set aside.
func TestATopicThatHangsLeavesPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan []*row, 1)
		b := New(Options{Concurrency: 16, ClaimLimit: 100}, func(rows []*row) {
			if len(rows) > 0 {
				released <- rows
			}
		})
		b.spawn = func(run func()) { go run() }
		b.Add(append(rowsOf("hangs", 12), rowsOf("works", 2)...), 100)
		topics := map[string]int{}
		for _, row := range takeAll(b) {
			topics[row.place.Topic]++
		}
		if topics["hangs"] != 4 || topics["works"] != 2 {
			t.Errorf("rows start by topic: %v, want a quarter of 16 of one that hangs, and all of the other", topics)
		}
		time.Sleep(stallTime + time.Millisecond)
		if rows := <-released; len(rows) != 8 {
			t.Errorf("%d rows are put back, want the 8 that wait", len(rows))
		}
		if rooms := b.Stuck(); len(rooms) != 1 || rooms["hangs"] != 0 {
			t.Errorf("stuck: %v, want the topic that hangs, without room", rooms)
		}
	})
}

// The options can give each topic a fixed number of places.
func TestPlacesOfATopicCanBeFixed(t *testing.T) {
	t.Parallel()
	b := New(Options{Concurrency: 16, ClaimLimit: 100, PerTopic: 3}, func([]*row) {})
	b.Add(append(rowsOf("one", 10), rowsOf("other", 10)...), 100)
	if n := len(takeAll(b)); n != 6 {
		t.Errorf("%d rows of two topics start, want 3 of each", n)
	}
}
