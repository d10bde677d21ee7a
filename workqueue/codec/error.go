package codec

import (
	"errors"
	"fmt"
	"reflect"
)

// A DecodeError reports that a row's payload could not be decoded into the type that its handler takes.
type DecodeError struct {
	Type string // of the handler's value
	Err  error  // of the codec
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("txwork: the payload does not decode into %s: %v", e.Type, e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

// decodeError wraps err in a DecodeError, unless it is one already.
func decodeError[T any](err error) error {
	var named *DecodeError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return &DecodeError{Type: reflect.TypeFor[T]().String(), Err: err}
}
