package codec

import (
	"errors"
	"fmt"
	"reflect"
)

// A DecodeError says that a row's payload is none of the type that its handler takes.
type DecodeError struct {
	Type string // that was wanted
	Err  error  // the codec's
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("txwork: the payload does not decode into %s: %v", e.Type, e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

// decodeError names the type, unless that was done already.
func decodeError[T any](err error) error {
	var named *DecodeError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return &DecodeError{Type: reflect.TypeFor[T]().String(), Err: err}
}
