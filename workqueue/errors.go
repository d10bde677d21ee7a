package workqueue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/fault"
)

var (
	// ErrLeaseLost says that a settle or an extend named a claim that is no longer current: its lease
	// ended and the row was reaped, or claimed again, or settled otherwise. Nothing was changed.
	ErrLeaseLost = fault.ErrLeaseLost

	// ErrGone says that the row no longer exists: deleted by its ack, or purged. Whether this claim's
	// own settle deleted it cannot be told any more.
	ErrGone = fault.ErrGone

	// ErrInvalid is what errors.Is finds in every [InvalidError].
	ErrInvalid = fault.ErrInvalid

	// ErrNotFound says that what was asked for does not exist: it was never written, or has been deleted. The error
	// that wraps it names it.
	ErrNotFound = fault.ErrNotFound

	// ErrSchemaVersion says that a table is missing, or was made for another version of this library.
	ErrSchemaVersion = fault.ErrSchemaVersion

	// ErrPoolMode says that the pool leads to a pooler that does not keep what the library relies on: transactions,
	// which one in statement mode refuses, or prepared statements, which one in transaction mode loses unless it tracks
	// them. The error that wraps it names the remedy.
	ErrPoolMode = fault.ErrPoolMode

	// ErrSession says that a session was refused, because SQL does not mean there what it says: its search_path names a
	// schema before pg_catalog, so that functions of that schema replace PostgreSQL's own, or its
	// session_replication_role is replica, so that no triggers run, or its client_encoding is not UTF8. The error that
	// wraps it says which.
	ErrSession = fault.ErrSession

	// ErrReadOnly says that the database refuses writes: a standby, or one set read-only.
	ErrReadOnly = fault.ErrReadOnly
)

// An InvalidError says which input was refused and why. Nothing was written.
type InvalidError struct {
	Field  string
	Reason string
}

func (e *InvalidError) Error() string        { return "txwork: " + e.Field + " " + e.Reason }
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// refuse makes an [InvalidError] of a problem, if there is one.
func refuse(field, problem string) error {
	if problem == "" {
		return nil
	}
	return &InvalidError{Field: field, Reason: problem}
}

// explain adds what to do to the errors of the database that have a known remedy.
func explain(err error) error {
	if fault.IsUntranslatable(err) && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("%w: %w", invalid("text", "has a character that the encoding of the database lacks: only "+
			"payloads can have it, unless the encoding is UTF8"), err)
	}
	return fault.Explain(err)
}

// An ItemError says which item of a call was refused, such as which of several messages, and why. Nothing was
// written. errors.Is finds [ErrInvalid] in it, errors.As the [*InvalidError] with the field.
type ItemError struct {
	Item  string // what the items are, such as message or timer
	Index int    // of the item in the call, from 0
	Count int    // of the call's items
	Err   error
}

// Error names the item where there are several: message 3 of 10.
func (e *ItemError) Error() string {
	var invalid *InvalidError
	switch {
	case e.Count == 1:
		return e.Err.Error()
	case errors.As(e.Err, &invalid):
		return fmt.Sprintf("txwork: %s %d of %d: %s %s", e.Item, e.Index+1, e.Count, invalid.Field, invalid.Reason)
	}
	return fmt.Sprintf("txwork: %s %d of %d: %v", e.Item, e.Index+1, e.Count, e.Err)
}

func (e *ItemError) Unwrap() error { return e.Err }

// A SettleError names the rows that a settle or an extend did not change although it was asked to.
// The other rows of the same call were changed. errors.Is finds [ErrLeaseLost] and [ErrGone] in it.
type SettleError struct {
	Table string
	Lost  []uuid.UUID // a stale claim
	Gone  []uuid.UUID // no such row
}

func (e *SettleError) Error() string {
	var parts []string
	if n := len(e.Lost); n > 0 {
		parts = append(parts, fmt.Sprintf("lease lost on %s", countIDs(e.Lost)))
	}
	if n := len(e.Gone); n > 0 {
		parts = append(parts, fmt.Sprintf("gone: %s", countIDs(e.Gone)))
	}
	return "txwork: " + e.Table + ": " + strings.Join(parts, "; ")
}

func (e *SettleError) Is(target error) bool {
	return target == ErrLeaseLost && len(e.Lost) > 0 || target == ErrGone && len(e.Gone) > 0
}

// merge adds the error of a further part of the same call. A nil SettleError has nothing to add.
func (e *SettleError) merge(err error) error {
	var other *SettleError
	switch {
	case e == nil:
		return err
	case err == nil:
		return e
	case errors.As(err, &other):
		e.Lost, e.Gone = append(e.Lost, other.Lost...), append(e.Gone, other.Gone...)
		return e
	}
	return err
}

func countIDs(ids []uuid.UUID) string {
	if len(ids) == 1 {
		return ids[0].String()
	}
	return fmt.Sprintf("%d rows, first %s", len(ids), ids[0])
}
