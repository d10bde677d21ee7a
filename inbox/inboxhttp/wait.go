package inboxhttp

import (
	"context"
	"errors"
	"time"
)

// errBusy says that no transaction could be begun within [Options].MaxWait.
var errBusy = errors.New("no connection of the pool became free in time, or the database did not answer")

// A wait bounds how long a message waits for its transaction.
type wait struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newWait returns a wait whose context ends after the limit, unless the wait is over before. The caller calls end.
func newWait(ctx context.Context, limit time.Duration) *wait {
	ctx, cancel := context.WithCancelCause(ctx)
	return &wait{ctx, cancel, time.AfterFunc(limit, func() { cancel(errBusy) })}
}

// over ends the wait. It returns an error if it has taken too long.
func (w *wait) over() error {
	if w.timer.Stop() {
		return nil
	}
	return errBusy
}

// explain returns errBusy for an error that the end of the wait has caused.
func (w *wait) explain(err error) error {
	if err != nil && context.Cause(w.ctx) == errBusy {
		return errBusy
	}
	return err
}

// end ends the wait's context.
func (w *wait) end() {
	w.timer.Stop()
	w.cancel(nil)
}
