package fault

import (
	"log/slog"
	"sync/atomic"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
)

// IsOutage distinguishes an error that every statement would meet from one that lies in the statement or its rows.
func IsOutage(err error) bool {
	if err == nil || contain.Is(err, contain.ErrPanicked) || contain.Is(err, ErrSchemaVersion) ||
		contain.Is(err, ErrPoolMode) || contain.Is(err, ErrInvalid) || IsVoid(err) {
		return false
	}
	return outage.Is(err)
}

// An Outage records whether the statements on a table, or of other work, meet an outage of the database. It is logged
// together with those of the other work that has the same log.
type Outage struct {
	log  *outage.Log
	kind atomic.Int32 // an outage.Kind
}

// NewOutage returns an Outage with a log of its own.
func NewOutage() *Outage { return &Outage{log: new(outage.Log)} }

// LogTo sets the log, before the first Note.
func (o *Outage) LogTo(log *outage.Log) { o.log = log }

// Note records how a statement ended, and reports whether it met an outage.
func (o *Outage) Note(logger *slog.Logger, err error) bool {
	switch {
	case err == nil && o.kind.Swap(int32(outage.None)) != int32(outage.None):
		o.log.Succeeded(logger, o)
	case IsOutage(err):
		o.kind.Store(int32(outage.Of(err)))
		o.log.Failed(logger, o, err)
		return true
	}
	return false
}

// Ongoing reports whether the last statement met an outage.
func (o *Outage) Ongoing() bool { return o.State() != "" }

// State says why statements do not work, and what to do. It is empty while they do.
func (o *Outage) State() string { return outage.Kind(o.kind.Load()).String() }

// End ends the outage for work that sends no more statements.
func (o *Outage) End() { o.log.Left(o) }
