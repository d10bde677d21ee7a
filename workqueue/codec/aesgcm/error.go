package aesgcm

import (
	"errors"
	"fmt"
)

// Reasons why a payload does not decrypt; errors.Is finds them in an [OpenError].
var (
	// ErrFormat means that the bytes were not encrypted by this package, or by a later version of it.
	ErrFormat = errors.New("is not in the format of this package")
	// ErrUnknownKey means that the codec does not have the key that encrypted the bytes.
	ErrUnknownKey = errors.New("is not known here")
	// ErrAuthentication means that the bytes were changed, belong to another row, table, field or tenant, or were
	// encrypted with another secret under the same key id.
	ErrAuthentication = errors.New("does not open it: the bytes were changed, or belong to another row, table, field " +
		"or tenant")
)

// An OpenError reports why a payload did not decrypt. It names the key, and contains nothing of the payload, because
// errors are stored and logged.
type OpenError struct {
	KeyID  string // empty if the bytes do not name a key
	reason error
}

func (e *OpenError) Error() string {
	if e.KeyID == "" || e.reason == ErrFormat {
		return "aesgcm: the payload " + e.reason.Error()
	}
	return fmt.Sprintf("aesgcm: the payload's key %q %v", e.KeyID, e.reason)
}

func (e *OpenError) Unwrap() error { return e.reason }

// innerError hides the text of the inner codec's error, which may quote the decrypted payload.
type innerError struct{ err error }

func (e innerError) Error() string {
	return fmt.Sprintf("opens it, but the inner codec refuses what was in it (%T)", e.err)
}

func (e innerError) Unwrap() error { return e.err }
