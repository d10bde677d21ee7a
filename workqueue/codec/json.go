package codec

import (
	"context"
	"encoding/json"
)

// JSON stores values as encoding/json writes them. It is what is used where no codec is named. Fields that
// the Go type does not know are ignored, so that producers can be deployed before consumers.
type JSON struct{}

// Encode implements [Codec].
func (JSON) Encode(_ context.Context, _ Envelope, v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements [Codec].
func (JSON) Decode(_ context.Context, _ Envelope, data []byte, into any) error {
	return json.Unmarshal(data, into)
}
