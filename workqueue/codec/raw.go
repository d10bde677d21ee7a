package codec

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Raw stores bytes as they are: values are []byte, string or [json.RawMessage], and are decoded into pointers
// to these. Any other type is an error, and so is text that is no UTF-8 where a string is wanted.
type Raw struct{}

// Encode implements [Codec]. It copies.
func (Raw) Encode(_ context.Context, _ Envelope, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return copied(v), nil
	case json.RawMessage:
		return copied(v), nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("codec: Raw encodes []byte, string and json.RawMessage, not %T", v)
}

// Decode implements [Codec]. It copies.
func (Raw) Decode(_ context.Context, _ Envelope, data []byte, into any) error {
	switch into := into.(type) {
	case *[]byte:
		return assign(into, copied(data))
	case *json.RawMessage:
		return assign(into, copied(data))
	case *string:
		if !utf8.Valid(data) {
			return fmt.Errorf("codec: Raw decodes %d bytes into a string, but they are no UTF-8", len(data))
		}
		return assign(into, string(data))
	}
	return fmt.Errorf("codec: Raw decodes into *[]byte, *string and *json.RawMessage, not %T", into)
}

func assign[T any](into *T, v T) error {
	if into == nil {
		return fmt.Errorf("codec: Raw decodes into a nil %T", into)
	}
	*into = v
	return nil
}

// copied is never nil, which would be NULL in a table.
func copied(data []byte) []byte { return append([]byte{}, data...) }
