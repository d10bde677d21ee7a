// Package payload is what the domains share about the values of their rows: how a codec is asked, and how what it
// refuses is told.
package payload

import (
	"context"
	"reflect"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue/codec"
)

// Of is a row's payload: the bytes that were given, or the value, encoded. Nil is none of either.
func Of(ctx context.Context, c codec.Codec, e codec.Envelope, value any, given []byte) ([]byte, error) {
	switch {
	case value == nil:
		return given, nil
	case given != nil:
		return nil, validate.Errorf("value", "is set, and so is the payload: one of them says what is stored")
	}
	return Encode(ctx, c, e, "value", value)
}

// Encode makes the bytes of a value, never nil. The error names the field and is a [workqueue.ErrInvalid], and
// the codec's own is in it.
func Encode(ctx context.Context, c codec.Codec, e codec.Envelope, field string, v any) ([]byte, error) {
	data, err := c.Encode(ctx, e, v)
	if err != nil {
		return nil, &encodeError{validate.Errorf(field, "of type %T cannot be encoded: %v", v, err), err}
	}
	if data == nil {
		data = []byte{} // nil would be NULL
	}
	return data, nil
}

// An encodeError is two errors with the text of the first.
type encodeError struct{ invalid, cause error }

func (e *encodeError) Error() string   { return e.invalid.Error() }
func (e *encodeError) Unwrap() []error { return []error{e.invalid, e.cause} }

// Decode reads a row's payload; a nil codec is [codec.JSON]. The error is a [*codec.DecodeError].
func Decode(ctx context.Context, c codec.Codec, e codec.Envelope, data []byte, into any) error {
	if c == nil {
		c = codec.JSON{}
	}
	if err := c.Decode(ctx, e, data, into); err != nil {
		return &codec.DecodeError{Type: wanted(into), Err: err}
	}
	return nil
}

// wanted is the type that a pointer points to.
func wanted(into any) string {
	t := reflect.TypeOf(into)
	switch {
	case t == nil:
		return "nil"
	case t.Kind() == reflect.Pointer:
		t = t.Elem()
	}
	return t.String()
}

// Opener is a codec that seals what another one encodes, such as package aesgcm's.
type Opener interface {
	// Open returns what was sealed.
	Open(e codec.Envelope, sealed []byte) ([]byte, error)
}

// Plain is what says that two values are equal although a codec seals each of them differently: the bytes inside,
// or, where the codec is no [Opener], the bytes that it has made.
func Plain(c codec.Codec, e codec.Envelope, data []byte) ([]byte, error) {
	if o, seals := c.(Opener); seals {
		return o.Open(e, data)
	}
	return data, nil
}
