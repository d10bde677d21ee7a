package workqueue

import (
	"log/slog"
	"sync/atomic"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
)

// An outageOf records whether the statements on a table, or of other work, have met an outage of the database. Outages
// are logged together with those of the whole runtime.
type outageOf struct {
	log  *outage.Log
	kind atomic.Int32 // an outage.Kind
}

// newOutage makes an outageOf with a log of its own.
func newOutage() *outageOf { return &outageOf{log: new(outage.Log)} }

// note records how a statement ended, and reports whether it met an outage.
func (o *outageOf) note(logger *slog.Logger, err error) bool {
	switch {
	case err == nil && o.kind.Swap(int32(outage.None)) != int32(outage.None):
		o.log.Succeeded(logger, o)
	case isOutage(err):
		o.kind.Store(int32(outage.Of(err)))
		o.log.Failed(logger, o, err)
		return true
	}
	return false
}

func (o *outageOf) ongoing() bool { return o.state() != "" }

// state says why statements do not work, and what to do. It is empty while they do.
func (o *outageOf) state() string { return outage.Kind(o.kind.Load()).String() }

// left ends the outage for work that sends no more statements.
func (o *outageOf) left() { o.log.Left(o) }

// isOutage distinguishes an error that every statement would meet from one that lies in the statement or its rows.
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

// NoteOutage records how a statement of other work beside the runtime's workers ended, such as one under
// [Runtime.AcquireFunc]: nil, or an error. Outages of the database are logged once for all work of the runtime, when
// they begin and when they end. NoteOutage reports whether err is one.
func (r *Runtime) NoteOutage(logger *slog.Logger, err error) bool { return r.others.note(logger, err) }
