package postgres

import (
	"math"
	"time"
)

// StatementSize bounds the payloads and headers of one statement, and thereby what driver and server hold in memory at
// once.
const StatementSize = 16 << 20

// Fitting returns how many of the items, from the first on, one statement takes: up to so many, and up to
// [StatementSize] unless the first is larger by itself. The function size returns an item's size in bytes.
func Fitting[T any](items []T, most int, size func(*T) int) int {
	bytes := 0
	for i := range items {
		bytes += size(&items[i])
		if i == most || i > 0 && bytes > StatementSize {
			return i
		}
	}
	return len(items)
}

// OrNull is the value to store: nil, which is NULL, for the zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// Seconds converts seconds that the database measured to a duration. It is bounded by the longest duration there is,
// because times may be further away.
func Seconds(seconds float64) time.Duration {
	const most = float64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(seconds, -most), most) * float64(time.Second))
}
