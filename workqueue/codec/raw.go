package codec

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Raw stores bytes unchanged. It encodes values of type []byte, string and [json.RawMessage], and decodes into pointers
// to these types. Any other type is an error. So is decoding bytes that are not valid UTF-8 into a string.
type Raw struct{}

// Encode implements [Codec]. It copies the value.
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

// Decode implements [Codec]. It copies the data.
func (Raw) Decode(_ context.Context, _ Envelope, data []byte, into any) error {
	switch into := into.(type) {
	case *[]byte:
		return assign(into, copied(data))
	case *json.RawMessage:
		return assign(into, copied(data))
	case *string:
		if !utf8.Valid(data) {
			return fmt.Errorf("codec: Raw decodes %d bytes into a string, but they are not valid UTF-8", len(data))
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

// copied never returns nil, which the table would store as NULL.
func copied(data []byte) []byte { return append([]byte{}, data...) }
