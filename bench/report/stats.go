package report

import "slices"

// A spread is what several measurements of one thing have in common.
type spread struct{ median, min, max float64 }

// spreadOf is that of at least one value.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	return spread{median: median(sorted), min: sorted[0], max: sorted[len(sorted)-1]}
}

// median is the middle one of sorted values, or between the two in the middle.
func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
