package bench

import (
	"fmt"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// A Result is what a workload measured. Its JSON names are stable. Fields that a workload does not measure are
// absent.
type Result struct {
	Workload    string   `json:"workload"`    // name of the workload
	Parameters  Workload `json:"parameters"`  // including defaults; durations in nanoseconds
	Interrupted bool     `json:"interrupted"` // it ended early, and the figures are those until then
	Jobs        int64    `json:"jobs"`        // jobs done, or written if the workload only writes; counted in the database
	Lost        int64    `json:"lost"`        // jobs that were neither done nor will be retried
	Seconds     float64  `json:"seconds"`     // duration of the measured work

	JobsPerSecond float64 `json:"jobs_per_second"` // mean rate
	// PerSecond is how many were done in each second. The last one is not a whole second.
	PerSecond []int64 `json:"per_second,omitempty"`
	// LastToFirstQuarter is the speed at which the last quarter of the jobs was done, relative to the first.
	LastToFirstQuarter float64 `json:"last_to_first_quarter,omitempty"`

	*measure.Percentiles
	*Costs

	Early      *int64   `json:"early,omitempty"` // timers that fired before their time
	Settings   Settings `json:"settings"`        // what the figures depend on
	clockDoubt float64  // milliseconds by which latencies may be wrong, of two clocks
	measured   string   // what the latencies are of, for people
}

// Err says why the result is a failure.
func (r *Result) Err() error {
	switch {
	case r.Lost > 0:
		return fmt.Errorf("%d of %d jobs were lost", r.Lost, r.Jobs+r.Lost)
	case r.Lost < 0:
		return fmt.Errorf("%d jobs were done that nobody asked for", -r.Lost)
	case r.Early != nil && *r.Early > 0:
		return fmt.Errorf("%d timers fired early", *r.Early)
	}
	return nil
}

// latencies sets the percentiles, and says what was measured.
func (r *Result) latencies(of string, samples []time.Duration) {
	r.measured, r.Percentiles = of, measure.PercentilesOf(samples)
}

// took sets the time and the rate.
func (r *Result) took(seconds float64) *Result {
	r.Seconds = seconds
	if seconds > 0 {
		r.JobsPerSecond = float64(r.Jobs) / seconds
	}
	return r
}
