package alarms

import (
	"sync"
	"time"
)

// buckets are token buckets in memory, one for each owner that was seen recently.
type buckets struct {
	rate  float64 // tokens per second
	burst float64

	mu    sync.Mutex
	all   map[string]bucket
	swept time.Time
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newBuckets(rate float64, burst int) *buckets {
	return &buckets{rate: rate, burst: float64(burst), all: map[string]bucket{}}
}

// take takes a token, or returns how long it takes until there is one.
func (b *buckets) take(owner string, now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	left, seen := b.all[owner]
	if !seen {
		left = bucket{tokens: b.burst, at: now}
	}
	left.tokens = min(b.burst, left.tokens+b.rate*max(now.Sub(left.at), 0).Seconds())
	left.at = now
	if ok = left.tokens >= 1; ok {
		left.tokens--
	} else {
		wait = time.Duration((1 - left.tokens) / b.rate * float64(time.Second))
	}
	b.all[owner] = left
	return wait, ok
}

// sweep deletes the buckets that are full again, from time to time.
func (b *buckets) sweep(now time.Time) {
	full := time.Duration(b.burst / b.rate * float64(time.Second))
	if now.Sub(b.swept) < max(full, time.Minute) {
		return
	}
	b.swept = now
	for owner, left := range b.all {
		if now.Sub(left.at) >= full {
			delete(b.all, owner)
		}
	}
}
