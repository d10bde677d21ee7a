package measure

import (
	"slices"
	"time"
)

// A Spread summarizes several figures of the same thing. Its JSON names are stable.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"` // number of figures
}

// SpreadOf returns the spread of figures; of none it is zero.
func SpreadOf(figures []float64) Spread {
	n := len(figures)
	if n == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1], Runs: n}
}

// SpreadBy returns the spread of one figure of each run.
func SpreadBy[R any](runs []R, figure func(R) float64) Spread {
	figures := make([]float64, len(runs))
	for i, r := range runs {
		figures[i] = figure(r)
	}
	return SpreadOf(figures)
}

// Overlaps reports whether the ranges of two spreads overlap. If they do, other runs may show the opposite.
func (s Spread) Overlaps(o Spread) bool { return s.Min <= o.Max && o.Min <= s.Max }

// Percentiles are those of a number of latencies, in milliseconds. Their JSON names are stable.
type Percentiles struct {
	P50 float64 `json:"p50_ms"` // median of the latencies
	P95 float64 `json:"p95_ms"` // 95th percentile
	P99 float64 `json:"p99_ms"` // 99th percentile
	Max float64 `json:"max_ms"` // the highest latency
}

// PercentilesOf uses the nearest rank, so each percentile is one of the latencies. It returns nil if there are none.
func PercentilesOf(latencies []time.Duration) *Percentiles {
	if len(latencies) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(latencies))
	rank := func(percent int) float64 {
		return Milliseconds(sorted[(len(sorted)*percent+99)/100-1])
	}
	return &Percentiles{P50: rank(50), P95: rank(95), P99: rank(99), Max: rank(100)}
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
