package workqueue

import (
	"log/slog"
	"sync/atomic"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
)

// An outageOf is what the statements on a table, or of other work, know of outages of the database. They are logged
// together with those of the whole runtime.
type outageOf struct {
	log  *outage.Log
	away atomic.Bool
}

// newOutage is of somebody who shares it with nobody.
func newOutage() *outageOf { return &outageOf{log: new(outage.Log)} }

// note is told of every statement, and tells whether it met an outage.
func (o *outageOf) note(logger *slog.Logger, err error) bool {
	switch {
	case err == nil && o.away.Swap(false):
		o.log.Succeeded(logger, o)
	case isOutage(err):
		o.away.Store(true)
		o.log.Failed(logger, o, err)
		return true
	}
	return false
}

func (o *outageOf) ongoing() bool { return o.away.Load() }

// left ends it for somebody who sends nothing any more.
func (o *outageOf) left() { o.log.Left(o) }

// isOutage tells an error that every statement would meet from one that lies in the statement or its rows.
func isOutage(err error) bool {
	if err == nil || contain.Is(err, contain.ErrPanicked) || contain.Is(err, ErrSchemaVersion) ||
		contain.Is(err, ErrPoolMode) || contain.Is(err, ErrInvalid) {
		return false
	}
	if _, refused := contain.As[*SettleError](err); refused {
		return false
	}
	return outage.Is(err)
}

// NoteOutage is told how a statement of other work beside the runtime's workers ended, such as one under
// [Runtime.AcquireFunc]: nil, or an error. Outages of the database are logged once for all work of the runtime, at
// their begin and at their end. It tells whether err is one.
func (r *Runtime) NoteOutage(logger *slog.Logger, err error) bool { return r.others.note(logger, err) }
