package alarms

import (
	"errors"
	"net"

	"github.com/txwork/txwork/internal/httppost"
)

// A wakeError says to an alarm's owner that a delivery failed, and to the operator how: names and addresses of
// the receiver are the operator's.
type wakeError struct {
	told  string
	cause error
}

func (e *wakeError) Error() string { return e.told }
func (e *wakeError) Unwrap() error { return e.cause }

// hidingTarget keeps what a failed request says about the receiver from the alarm's owner.
func hidingTarget(err error) error {
	var name *net.DNSError
	var connection *net.OpError
	switch {
	case errors.Is(err, httppost.ErrPrivate):
		return &wakeError{httppost.ErrPrivate.Error(), err}
	case errors.As(err, &name):
		return &wakeError{"the receiver's name could not be resolved", err}
	case errors.As(err, &connection) && connection.Op == "dial":
		return &wakeError{"the receiver could not be reached", err}
	}
	return &wakeError{"the connection to the receiver failed", err}
}

// detail is a failure as operators are told of it.
func detail(err error) (shown error) {
	defer func() {
		if recover() != nil { // of the error's own methods
			shown = storable(err)
		}
	}()
	var hidden *wakeError
	if errors.As(err, &hidden) {
		return hidden.cause
	}
	return err
}
