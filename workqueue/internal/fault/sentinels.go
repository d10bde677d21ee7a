package fault

import (
	"errors"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
)

// Package workqueue exports these, and says there what they mean.
var (
	ErrLeaseLost     = errors.New("lease lost")
	ErrGone          = errors.New("row is gone")
	ErrInvalid       = errors.New("invalid")
	ErrNotFound      = errors.New("not found")
	ErrSchemaVersion = errors.New("the schema does not fit this library")
	ErrPoolMode      = errors.New("the pooler does not fit")
	ErrSession       = outage.ErrSession
	ErrReadOnly      = errors.New("database is read-only")
)

// Explain adds what to do to an error of the database that has a known remedy, and wraps the sentinel that it is.
func Explain(err error) error {
	return postgres.Sentinels{ReadOnly: ErrReadOnly, PoolMode: ErrPoolMode, SchemaVersion: ErrSchemaVersion,
		Session: ErrSession}.Explain(err)
}

// IsVoid reports that a claim is no longer its owner's: nothing is left to settle.
func IsVoid(err error) bool { return contain.Is(err, ErrLeaseLost) || contain.Is(err, ErrGone) }

// IsUnsettled reports whether a settle that ended with the error still has to be made.
func IsUnsettled(err error) bool { return err != nil && !IsVoid(err) }

// IsMisfit reports that the schema, the pooler or the session does not fit, so that no statement can work before
// somebody has changed that.
func IsMisfit(err error) bool {
	return contain.Is(err, ErrSchemaVersion) || contain.Is(err, ErrPoolMode) || contain.Is(err, ErrSession)
}
