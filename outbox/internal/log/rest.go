package log

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue"
)

// A rest is the state of the subscription's destination, as this relay knows it. Once a handler has said that it is
// unavailable, nothing is handed out until the rest is over. Then one message probes the destination.
type rest struct {
	logger *slog.Logger

	mu      sync.Mutex
	since   time.Time // zero: the destination is available
	length  time.Duration
	until   time.Time
	probing bool
	changed chan struct{} // closed when any of this has changed
}

func newRest(logger *slog.Logger) *rest { return &rest{logger: logger, changed: make(chan struct{})} }

// admit reports whether a message may be handed out, and whether it is the probe. If not, it is to be asked again when
// the channel is closed, or after the pause, if that is positive.
func (r *rest) admit() (ok, probe bool, pause time.Duration, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return true, false, 0, nil
	}
	if pause := time.Until(r.until); r.probing || pause > 0 {
		return false, false, max(pause, 0), r.changed
	}
	r.probing = true
	return true, true, 0, nil
}

// isAway reports whether the destination is not known to be available.
func (r *rest) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.since.IsZero()
}

// note learns from the end of a message.
func (r *rest) note(probe bool, end workqueue.ExternalEnd) {
	away := end.Outcome == workqueue.RowUnavailable
	if !probe && !away {
		return
	}
	r.change(func() {
		switch {
		case probe && away:
			r.begin(min(2*r.length, outage.LongestRest))
		case away && r.since.IsZero():
			r.since = time.Now()
			r.begin(outage.FirstRest)
			r.logger.Warn("destination is unavailable", slog.String("error", end.Error))
		case !probe:
		case end.Outcome == workqueue.RowAcked || end.Outcome == workqueue.RowAbandoned ||
			end.Outcome == workqueue.RowFailed:
			r.logger.Info("destination is available again", slog.Time("unavailable_since", r.since))
			r.since = time.Time{}
		default: // the probe says nothing
			r.begin(outage.FirstRest)
		}
		r.probing = r.probing && !probe
	})
}

func (r *rest) begin(length time.Duration) {
	r.length = length
	r.until = time.Now().Add(time.Duration(float64(length) * (1 - outage.RestJitter*rand.Float64())))
}

func (r *rest) change(by func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by()
	close(r.changed)
	r.changed = make(chan struct{})
}
