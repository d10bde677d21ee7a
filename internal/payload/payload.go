// Package payload has what the domains share about the payloads of their rows: how a codec is called, and how its
// errors are reported.
package payload

import (
	"context"
	"reflect"

	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/validate"
)

// Of returns a row's payload: the value, encoded, or the given bytes. It returns nil if there is neither.
func Of(ctx context.Context, c codec.Codec, e codec.Envelope, value any, given []byte) ([]byte, error) {
	switch {
	case value == nil:
		return given, nil
	case given != nil:
		return nil, validate.Errorf("value", "is set, and so is the payload: one of them says what is stored")
	}
	return Encode(ctx, c, e, "value", value)
}

// Encode encodes a value; the result is never nil. The error names the field, is a [workqueue.ErrInvalid], and wraps
// the codec's error.
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

// An encodeError wraps two errors and has the text of the first.
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

// wanted is the type that into points to.
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

// Opener is implemented by codecs that seal what another codec encodes, such as package aesgcm's.
type Opener interface {
	// Open returns what was sealed.
	Open(e codec.Envelope, sealed []byte) ([]byte, error)
}

// Plain returns the bytes by which two payloads can be compared, even if a codec seals equal values differently: the
// sealed content or, if the codec is no [Opener], the encoded bytes.
func Plain(c codec.Codec, e codec.Envelope, data []byte) ([]byte, error) {
	if o, seals := c.(Opener); seals {
		return o.Open(e, data)
	}
	return data, nil
}
