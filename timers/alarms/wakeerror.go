package alarms

import (
	"errors"
	"net"

	"github.com/txwork/txwork/internal/httppost"
)

// A wakeError tells an alarm's owner that a delivery failed, and operators also why. Names and addresses of the
// receiver are for operators only.
type wakeError struct {
	shown string // to the owner
	cause error
}

func (e *wakeError) Error() string { return e.shown }
func (e *wakeError) Unwrap() error { return e.cause }

// hidingTarget hides from the alarm's owner what a failed request reveals about the receiver.
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

// detail returns a failure with the details for operators.
func detail(err error) (shown error) {
	defer func() {
		if recover() != nil { // a method of the error has panicked
			shown = storable(err)
		}
	}()
	if hidden, ok := errors.AsType[*wakeError](err); ok {
		return hidden.cause
	}
	return err
}
