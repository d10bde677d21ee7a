package workqueue

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

const tries = 50

var retries = []Retry{
	DefaultRetry,
	{Growth: Constant, Base: 3 * time.Second, Cap: time.Minute},
	{Growth: Constant, Base: 10 * time.Hour, Cap: 10 * time.Hour}, // in microseconds this exceeds an integer
	{Growth: Linear, Base: time.Second, Cap: time.Minute},
	{Growth: Linear, Base: 90 * time.Minute, Cap: maxDelay, Jitter: 0.5},
	{Growth: Quadratic, Base: time.Second, Cap: time.Hour, Jitter: 1},
	{Growth: Quadratic, Base: time.Hour, Cap: maxDelay},
	{Growth: Exponential, Base: 30 * time.Second, Cap: 15 * time.Minute},
	{Growth: Exponential, Base: time.Microsecond, Cap: maxDelay, Jitter: 1e-7},
	{Growth: Exponential, Base: maxDelay, Cap: maxDelay},
	{Growth: Constant}, // at once
}

func (r Retry) String() string {
	return fmt.Sprintf("growth %d base %v cap %v jitter %g", r.Growth, r.Base, r.Cap, r.Jitter)
}

// want is the delay without jitter, computed in floating point, where nothing overflows.
func (r Retry) want(attempt int) time.Duration {
	n := float64(attempt)
	factor := map[Growth]float64{Constant: 1, Linear: n, Quadratic: n * n, Exponential: math.Pow(2, n-1)}[r.Growth]
	return time.Duration(math.Min(float64(r.Base)*factor, float64(r.Cap)))
}

// The Go worker and the SQL reaper wait equally long, never longer than Cap, and no attempt overflows.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool
	for _, r := range retries {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			rows, err := pool.Query(t.Context(), "SELECT a.n, "+r.sql("a.n")+
				" FROM (SELECT generate_series(1, $1::int) AS n UNION ALL SELECT unnest(ARRAY[1000, 1000000])) AS a "+
				"ORDER BY 1", tries)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			attempts := 0
			for ; rows.Next(); attempts++ {
				var attempt int
				var sql time.Duration
				if err := rows.Scan(&attempt, &sql); err != nil {
					t.Fatal(err)
				}
				r.judge(t, "Delay", attempt, r.Delay(attempt))
				r.judge(t, "SQL", attempt, sql)
			}
			if err := rows.Err(); err != nil || attempts != tries+2 {
				t.Fatalf("%d attempts, error %v", attempts, err)
			}
		})
	}
}

// judge checks a delay against the range that the jitter allows. Without jitter it must be exact.
func (r Retry) judge(t *testing.T, who string, attempt int, got time.Duration) {
	t.Helper()
	const rounding = time.Microsecond
	hi := r.want(attempt)
	lo := time.Duration(float64(hi) * (1 - r.Jitter))
	if got < lo-rounding || got > hi+rounding || got > r.Cap {
		t.Errorf("%s after attempt %d: got %v, want %v to %v", who, attempt, got, lo, hi)
	}
}

// Jitter spreads over its whole range, and differs each time.
func TestRetryJitterSpreads(t *testing.T) {
	t.Parallel()
	r := Retry{Growth: Constant, Base: time.Hour, Cap: time.Hour, Jitter: 0.5}
	var sql []time.Duration
	if err := pgtest.New(t).Pool.QueryRow(t.Context(), "SELECT array_agg("+r.sql("n")+
		") FROM generate_series(1, 1000) AS n").Scan(&sql); err != nil {
		t.Fatal(err)
	}
	delays := map[string][]time.Duration{"SQL": sql}
	for range sql {
		delays["Delay"] = append(delays["Delay"], r.Delay(1))
	}
	for who, ds := range delays {
		quarters := map[int]int{}
		for _, d := range ds {
			quarters[int(4*(d-30*time.Minute)/(30*time.Minute))]++
		}
		for q := range 4 {
			if quarters[q] < 100 { // of about 250; the chance of it is below 1e-30
				t.Errorf("%s: only %d of %d delays are in quarter %d of the range", who, quarters[q], len(ds), q)
			}
		}
	}
}

func TestRetryBeforeTheFirstAttempt(t *testing.T) {
	t.Parallel()
	r := Retry{Growth: Exponential, Base: time.Second, Cap: time.Minute}
	for _, attempt := range []int{0, -1, math.MinInt} {
		if got := r.Delay(attempt); got != time.Second {
			t.Errorf("Delay(%d): got %v, want that of the first attempt", attempt, got)
		}
	}
	if got := r.Delay(math.MaxInt); got != time.Minute {
		t.Errorf("Delay(MaxInt): got %v, want the cap", got)
	}
}

func TestDefaultOfTheCap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retry Retry
		want  time.Duration // after attempt 30
	}{
		"constant":    {Retry{Growth: Constant, Base: 20 * time.Millisecond}, 20 * time.Millisecond},
		"exponential": {Retry{Growth: Exponential, Base: time.Second}, DefaultRetry.Cap},
		"long":        {Retry{Growth: Linear, Base: time.Hour}, time.Hour},
	} {
		if err := (Spec{Table: "t", Retry: c.retry}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.retry.Delay(30); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The span is the sum of the pauses, which jitter makes shorter by its share at most.
func TestRetrySpan(t *testing.T) {
	t.Parallel()
	century := Retry{Growth: Constant, Base: maxDelay, Cap: maxDelay}
	for name, c := range map[string]struct {
		retry       Retry
		attempts    int
		least, most time.Duration
	}{
		"never":      {DefaultRetry, 0, 0, 0},
		"one":        {DefaultRetry, 1, 0, 0},
		"ten":        {DefaultRetry, 10, 511 * time.Second * 8 / 10, 511 * time.Second},
		"capped":     {DefaultRetry, 12, (1023 + 900) * time.Second * 8 / 10, (1023 + 900) * time.Second},
		"no jitter":  {Retry{Growth: Quadratic, Base: time.Second}, 3, 5 * time.Second, 5 * time.Second},
		"all jitter": {Retry{Growth: Constant, Base: time.Second, Jitter: 1}, 3, 0, 2 * time.Second},
		"centuries":  {century, maxAttemptsLimit, math.MaxInt64, math.MaxInt64},
	} {
		least, most := c.retry.Span(c.attempts)
		if (least-c.least).Abs() > time.Millisecond || (most-c.most).Abs() > time.Millisecond {
			t.Errorf("%s: %v to %v, want %v to %v", name, least, most, c.least, c.most)
		}
	}
	if least, most := DefaultRetry.Span(DefaultMaxAttempts); least < time.Hour || most > 80*time.Minute {
		t.Errorf("by default %v to %v, want about an hour", least, most)
	}
}
