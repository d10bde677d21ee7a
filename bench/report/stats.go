package report

import "slices"

// A spread summarizes several measurements of the same value.
type spread struct{ median, min, max float64 }

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	return spread{median: median(sorted), min: sorted[0], max: sorted[len(sorted)-1]}
}

// median returns the middle of sorted values, or the mean of the two in the middle.
func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
