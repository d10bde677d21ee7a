// Package contain calls code that is not ours, such as handlers, callbacks and the methods of an application's errors,
// and survives its panics.
package contain

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// ErrPanicked is wrapped by every error that [Recover] makes.
var ErrPanicked = errors.New("panic")

// Recover must be deferred: it turns a panic into an error that includes the stack.
func Recover(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v\n%s", ErrPanicked, r, debug.Stack())
	}
}

// Report calls a callback, which may be nil and may panic.
func Report(callback func(error), err error) {
	if callback == nil {
		return
	}
	defer func() { _ = recover() }()
	callback(err)
}

// As is errors.As for an error that may contain an application's error. If a method of that error panics, As returns
// false.
func As[T error](err error) (target T, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	ok = errors.As(err, &target)
	return target, ok
}

// Is is errors.Is with the same protection.
func Is(err, target error) (is bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// IsNil reports whether an interface holds nothing, or a nil pointer, whose methods would panic.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
