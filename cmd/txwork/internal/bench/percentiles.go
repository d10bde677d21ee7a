package bench

import (
	"slices"
	"sync"
	"time"
)

// Percentiles are those of a number of latencies, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50_ms"` // median of the latencies
	P95 float64 `json:"p95_ms"` // 95th percentile
	P99 float64 `json:"p99_ms"` // 99th percentile
	Max float64 `json:"max_ms"` // the highest latency

	of string // what was measured, for people
}

// percentilesOf uses the nearest rank, so each percentile is one of the latencies. It returns nil if there are none.
func percentilesOf(of string, latencies []time.Duration) *Percentiles {
	if len(latencies) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(latencies))
	rank := func(percent int) float64 {
		return milliseconds(sorted[(len(sorted)*percent+99)/100-1])
	}
	return &Percentiles{P50: rank(50), P95: rank(95), P99: rank(99), Max: rank(100), of: of}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// latencies collects samples from many goroutines.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *latencies) percentiles(of string) *Percentiles {
	l.mu.Lock()
	defer l.mu.Unlock()
	return percentilesOf(of, l.all)
}
