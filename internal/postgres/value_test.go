package postgres_test

import (
	"math"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/postgres"
)

func TestDurationsEndWhereGoEnds(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]time.Duration{
		1.5: 1500 * time.Millisecond, -2: -2 * time.Second, 1e12: math.MaxInt64 / time.Second * time.Second,
		-1e12: -math.MaxInt64 / time.Second * time.Second,
	} {
		if got := postgres.Seconds(seconds); got != want {
			t.Errorf("%g s: %v, want %v", seconds, got, want)
		}
	}
}
