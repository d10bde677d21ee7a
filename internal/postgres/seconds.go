package postgres

import (
	"math"
	"time"
)

// Seconds converts seconds that the database measured to a duration. It is bounded by the longest duration there is,
// because times may be further away.
func Seconds(seconds float64) time.Duration {
	const most = float64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(seconds, -most), most) * float64(time.Second))
}
