package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txwork/txwork/internal/contain"
)

// A Processor is something that has work at certain times: a worker without its loop, a
// schedule.
type Processor interface {
	// Process does what is due now and returns how much it did.
	Process(ctx context.Context) (int, error)
	// NextWakeAt tells when there is something to do next. It is nil when nothing is due, now or later.
	NextWakeAt(ctx context.Context) (*Wake, error)
	// Namespace names the processor in errors.
	Namespace() string
}

// A Wake is when there is something to do next.
type Wake struct {
	At time.Time     // by the database's clock
	In time.Duration // from the moment of the answer; not positive when something is due already
}

// processSafely turns a panic of a processor into an error: one bad run must not end the loop.
func processSafely(ctx context.Context, p Processor) (n int, err error) {
	defer contain.Recover(&err)
	return p.Process(ctx)
}

func nextWakeSafely(ctx context.Context, p Processor) (next *Wake, err error) {
	defer contain.Recover(&err)
	return p.NextWakeAt(ctx)
}

// Group makes one [Processor] of several. A run runs them all, even if one fails; the earliest wake wins.
func Group(namespace string, processors ...Processor) Processor {
	return group{namespace, processors}
}

type group struct {
	namespace  string
	processors []Processor
}

func (g group) Namespace() string { return g.namespace }

func (g group) Process(ctx context.Context) (int, error) {
	total := 0
	var errs []error
	for _, p := range g.processors {
		n, err := processSafely(ctx, p)
		total += n
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Namespace(), err))
		}
	}
	return total, errors.Join(errs...)
}

func (g group) NextWakeAt(ctx context.Context) (*Wake, error) {
	var first *Wake
	var errs []error
	for _, p := range g.processors {
		w, err := nextWakeSafely(ctx, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Namespace(), err))
			continue
		}
		if w != nil && (first == nil || w.In < first.In) {
			first = w
		}
	}
	return first, errors.Join(errs...)
}
