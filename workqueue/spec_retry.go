package workqueue

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Growth says how a [Retry] delay grows with the number of attempts.
type Growth uint8

const (
	Constant    Growth = iota + 1 // base, base, base
	Linear                        // base × n
	Quadratic                     // base × n²
	Exponential                   // base × 2ⁿ⁻¹
)

// Retry is a backoff as data, so that the Go worker and the SQL reaper compute the same delay.
//
// After attempt n (1 is the first) the delay is Base grown by Growth, at most Cap, less a random share
// of up to Jitter of it: jitter never makes a delay longer than Cap.
type Retry struct {
	Growth Growth
	Base   time.Duration
	// 0: Base where the growth is Constant, otherwise that of DefaultRetry or Base, whichever is more
	Cap    time.Duration
	Jitter float64 // 0, or 1e-9 to 1
}

// DefaultRetry waits 1 s after the first attempt and doubles up to 15 minutes, spread by a fifth so
// that rows which failed together do not come back together. So what has come back is found within 15 minutes. For how
// long rows are retried is decided by their number of attempts, see [Retry.Span].
var DefaultRetry = Retry{Growth: Exponential, Base: time.Second, Cap: 15 * time.Minute, Jitter: 0.2}

// minJitter is the smallest jitter besides 0. Smaller values may underflow when they are multiplied.
const minJitter = 1e-9

// maxExponent keeps 2ⁿ finite however many attempts a row is allowed, and still lets every base of a
// microsecond or more reach every cap.
const maxExponent = 60

// Delay is the time to wait after the given attempt, jitter included.
func (r Retry) Delay(attempt int) time.Duration {
	d := r.grown(max(attempt, 1))
	return time.Duration(d * (1 - r.Jitter*rand.Float64()))
}

// Span returns for how long a row is retried whose attempts fail at once: the time from its first attempt to its last,
// if it may have maxAttempts. Most is without jitter, and least with as much as there can be. So what a row calls may
// be down for least without making it a dead letter. Attempts that take time before they fail, such as those that end
// by a timeout, last longer by that. The result is [math.MaxInt64] if it does not fit a Duration.
func (r Retry) Span(maxAttempts int) (least, most time.Duration) {
	shortest, longest := 0.0, 0.0
	for attempt := 1; attempt < maxAttempts; attempt++ {
		d := r.grown(attempt)
		shortest, longest = shortest+d*(1-r.Jitter), longest+d
	}
	return saturated(shortest), saturated(longest)
}

// after is the delay of rows that have failed together for a while: as long again, within the Base and the Cap.
func (r Retry) after(failing time.Duration) time.Duration {
	d := float64(min(max(failing, r.Base), r.limit()))
	return time.Duration(d * (1 - r.Jitter*rand.Float64()))
}

func saturated(d float64) time.Duration {
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

// limit is the Cap or its default.
func (r Retry) limit() time.Duration {
	switch {
	case r.Cap != 0:
		return r.Cap
	case r.Growth == Constant:
		return r.Base
	}
	return max(DefaultRetry.Cap, r.Base)
}

func (r Retry) grown(attempt int) float64 {
	n := float64(attempt)
	factor := 1.0
	switch r.Growth {
	case Linear:
		factor = n
	case Quadratic:
		factor = n * n
	case Exponential:
		factor = math.Exp2(min(n-1, maxExponent))
	}
	return min(float64(r.Base)*factor, float64(r.limit()))
}

// sql is the same delay as an interval expression over the given attempts expression.
func (r Retry) sql(attempts string) string {
	factor := "1"
	switch r.Growth {
	case Linear:
		factor = attempts + "::float8" // base × attempts may pass an integer
	case Quadratic:
		factor = fmt.Sprintf("%s::float8 ^ 2", attempts)
	case Exponential:
		factor = fmt.Sprintf("2::float8 ^ least(%s - 1, %d)", attempts, maxExponent)
	}
	delay := fmt.Sprintf("least(%d * (%s), %d)", r.Base.Microseconds(), factor, r.limit().Microseconds())
	if r.Jitter > 0 {
		delay += fmt.Sprintf(" * (1 - %g * random())", r.Jitter)
	}
	return delay + " * interval '1 microsecond'"
}

// storedRetry is a Retry as a row keeps it. sqlOrRow reads it.
type storedRetry struct {
	Growth string  `json:"growth"`
	Base   int64   `json:"base_us"`
	Cap    int64   `json:"cap_us"`
	Jitter float64 `json:"jitter"`
}

// growthNames are the [Growth] values as rows keep them.
var growthNames = map[Growth]string{Constant: "constant", Linear: "linear", Quadratic: "quadratic",
	Exponential: "exponential"}

// stored is the JSON text of a row's own backoff; empty for none.
func (r Retry) stored() (string, error) {
	if r == (Retry{}) {
		return "", nil
	}
	encoded, err := json.Marshal(storedRetry{growthNames[r.Growth], r.Base.Microseconds(), r.limit().Microseconds(),
		r.Jitter})
	return string(encoded), err
}

// sqlOrRow is the delay as an interval expression: that of the row's own backoff, if it has one.
func (r Retry) sqlOrRow(attempts, row string) string {
	return fmt.Sprintf("CASE WHEN %[2]s IS NULL THEN %[1]s ELSE least((%[2]s ->> 'base_us')::float8"+
		" * CASE %[2]s ->> 'growth' WHEN 'linear' THEN %[3]s::float8 WHEN 'quadratic' THEN %[3]s::float8 ^ 2"+
		" WHEN 'exponential' THEN 2::float8 ^ least(%[3]s - 1, %[4]d) ELSE 1 END, (%[2]s ->> 'cap_us')::float8)"+
		" * (1 - coalesce((%[2]s ->> 'jitter')::float8, 0) * random()) * interval '1 microsecond' END",
		r.sql(attempts), row, attempts, maxExponent)
}

func (r Retry) validate() error {
	switch {
	case r.Growth < Constant || r.Growth > Exponential:
		return invalid("retry", "has Growth %d, want Constant, Linear, Quadratic or Exponential", r.Growth)
	case r.Base < 0:
		return invalid("retry", "has Base %v, it cannot be negative", r.Base)
	case r.limit() < r.Base:
		return invalid("retry", "has Cap %v below its Base %v", r.limit(), r.Base)
	case r.Cap > maxDelay:
		return invalid("retry", "has Cap %v, at most %v is allowed", r.Cap, maxDelay)
	case r.Jitter != 0 && !(r.Jitter >= minJitter && r.Jitter <= 1):
		return invalid("retry", "has Jitter %v, want 0, or %v to 1", r.Jitter, minJitter)
	}
	return nil
}
