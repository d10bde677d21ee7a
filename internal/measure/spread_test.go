package measure_test

import (
	"testing"

	"github.com/txwork/txwork/internal/measure"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		figures []float64
		want    measure.Spread
	}{
		{nil, measure.Spread{}},
		{[]float64{7}, measure.Spread{Median: 7, Min: 7, Max: 7, Runs: 1}},
		{[]float64{9, 1, 3}, measure.Spread{Median: 3, Min: 1, Max: 9, Runs: 3}},
		{[]float64{9, 1, 3, 2}, measure.Spread{Median: 2.5, Min: 1, Max: 9, Runs: 4}},
	} {
		if got := measure.SpreadOf(test.figures); got != test.want {
			t.Errorf("of %v it is %+v, want %+v", test.figures, got, test.want)
		}
	}
}

func TestSpreadsOverlap(t *testing.T) {
	t.Parallel()
	low, middle, high := measure.Spread{Min: 1, Max: 2}, measure.Spread{Min: 2, Max: 4}, measure.Spread{Min: 3, Max: 5}
	if !low.Overlaps(middle) || !middle.Overlaps(low) || !middle.Overlaps(high) || low.Overlaps(high) ||
		high.Overlaps(low) {
		t.Error("want that neighbours overlap, and the others do not")
	}
}
