package jobs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

var (
	// ErrUnique says that a job was refused because another job holds its unique key. Every [UniqueError] matches it.
	ErrUnique = errors.New("unique key is taken")

	// ErrUnknownKind says that a job's kind is not in the client's registry, when it is enqueued, or has no handler in
	// the worker's, when it is run.
	ErrUnknownKind = errors.New("unknown kind")
)

// A UniqueError says that a job was not enqueued, with [Reject], because another job holds its unique key.
type UniqueError struct {
	Index int       // of the job in the call, from 0
	Kind  string    // of the refused job
	ID    uuid.UUID // of the job that holds the key
}

func (e *UniqueError) Error() string {
	return fmt.Sprintf("txwork: job of kind %q: %v by job %s", e.Kind, ErrUnique, e.ID)
}

func (e *UniqueError) Is(target error) bool { return target == ErrUnique }

// A DecodeError says that the args of a job cannot be decoded into the type that is registered for its kind.
type DecodeError struct {
	Kind string
	Err  error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("txwork: args of kind %q do not decode: %v", e.Kind, e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

// A partError names the part of a call that an error is about, behind the prefix of all errors.
type partError struct {
	part string
	err  error
}

func (e *partError) Error() string {
	return "txwork: " + e.part + ": " + strings.TrimPrefix(e.err.Error(), "txwork: ")
}

func (e *partError) Unwrap() error { return e.err }
