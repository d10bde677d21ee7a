package aesgcm

import (
	"errors"
	"fmt"
)

// Why bytes do not open; errors.Is finds them in an [OpenError].
var (
	// ErrFormat says that the bytes were not sealed by this package, or by a later version of it.
	ErrFormat = errors.New("is not in the format of this package")
	// ErrUnknownKey says that the key which sealed the bytes is not known here.
	ErrUnknownKey = errors.New("is not known here")
	// ErrAuthentication says that the bytes were changed, belong to another row, table, field or tenant, or were
	// sealed with another secret under the same key id.
	ErrAuthentication = errors.New("does not open it: the bytes were changed, or belong to another row, table, field or tenant")
)

// An OpenError says why a payload did not open. It names the key, and nothing of the payload: errors are stored
// and logged, where others read them.
type OpenError struct {
	KeyID  string // empty if the bytes name none
	reason error
}

func (e *OpenError) Error() string {
	if e.KeyID == "" || e.reason == ErrFormat {
		return "aesgcm: the payload " + e.reason.Error()
	}
	return fmt.Sprintf("aesgcm: the payload's key %q %v", e.KeyID, e.reason)
}

func (e *OpenError) Unwrap() error { return e.reason }

// innerError keeps the text of the inner codec's error to itself: it may quote the opened payload.
type innerError struct{ err error }

func (e innerError) Error() string {
	return fmt.Sprintf("opens it, but the inner codec refuses what was in it (%T)", e.err)
}

func (e innerError) Unwrap() error { return e.err }
