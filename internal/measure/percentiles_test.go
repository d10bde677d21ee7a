package measure_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

func TestPercentilesAreByNearestRank(t *testing.T) {
	t.Parallel()
	upTo := func(n int) []time.Duration {
		list := make([]time.Duration, n)
		for i := range list {
			list[i] = time.Duration(n-i) * time.Millisecond // in falling order, so that they have to be sorted
		}
		return list
	}
	for name, test := range map[string]struct {
		latencies          []time.Duration
		p50, p95, p99, max float64
	}{
		"of one, all are that one":        {upTo(1), 1, 1, 1, 1},
		"of two":                          {upTo(2), 1, 2, 2, 2},
		"of twenty":                       {upTo(20), 10, 19, 20, 20},
		"of a hundred":                    {upTo(100), 50, 95, 99, 100},
		"of a hundred and one":            {upTo(101), 51, 96, 100, 101},
		"of a thousand":                   {upTo(1000), 500, 950, 990, 1000},
		"parts of a millisecond are kept": {[]time.Duration{1500 * time.Nanosecond}, 0.0015, 0.0015, 0.0015, 0.0015},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]time.Duration(nil), test.latencies...)
			got := measure.PercentilesOf(test.latencies)
			if want := (measure.Percentiles{P50: test.p50, P95: test.p95, P99: test.p99, Max: test.max}); *got != want {
				t.Errorf("got %+v, want %+v", *got, want)
			}
			for i := range given {
				if given[i] != test.latencies[i] {
					t.Fatal("the latencies were reordered")
				}
			}
		})
	}
	if got := measure.PercentilesOf(nil); got != nil {
		t.Errorf("of none there are %+v", got)
	}
}
