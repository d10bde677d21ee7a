// Package contain calls code that is not ours, such as handlers, callbacks and the methods of an application's errors,
// and goes on whatever it does.
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanicked is in every error that [Recover] makes.
var ErrPanicked = errors.New("panic")

// Recover is to be deferred: it makes an error of a panic, with the stack.
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

// As is errors.As for an error that may have one of the application's in it: one whose methods panic is no T.
func As[T error](err error) (target T, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	ok = errors.As(err, &target)
	return target, ok
}

// Is is errors.Is likewise.
func Is(err, target error) (is bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}
