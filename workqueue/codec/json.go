package codec

import (
	"context"
	"encoding/json"
)

// JSON encodes and decodes with encoding/json. It is the default codec. It ignores fields that the Go type does not
// have, so that you can deploy producers before consumers.
type JSON struct{}

// Encode implements [Codec].
func (JSON) Encode(_ context.Context, _ Envelope, v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements [Codec].
func (JSON) Decode(_ context.Context, _ Envelope, data []byte, into any) error {
	return json.Unmarshal(data, into)
}
