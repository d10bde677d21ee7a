package jobs

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue/codec"
)

// Args are what a job is to be done with: a type of the application's, one for each kind. They are stored as
// JSON; a type with MarshalBinary and UnmarshalBinary, and without a JSON or text form of its own, as the bytes
// of that.
//
// Kind names the kind: 1 to [MaxKind] bytes, the same for every value of the type. Jobs outlive deploys, so
// change neither the name nor the meaning of a field while jobs are queued.
type Args interface {
	Kind() string
}

// DefaultCodec is what jobs are stored with unless [Options] say otherwise: JSON, and types with a binary form, see
// [Args], as the bytes of that. To encrypt these, too, make it the inner codec of the one that encrypts.
type DefaultCodec struct{}

// Encode implements [codec.Codec].
func (DefaultCodec) Encode(_ context.Context, _ codec.Envelope, v any) ([]byte, error) {
	return marshal(v)
}

// Decode implements [codec.Codec].
func (DefaultCodec) Decode(_ context.Context, _ codec.Envelope, data []byte, into any) error {
	return unmarshal(data, into)
}

// A binaryForm is a value with bytes of its own.
type binaryForm interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// binaryOf is what a pointer points to, through further pointers, if that has a binary form and no form as text
// or JSON: those go before, because people read them.
func binaryOf(pointer reflect.Value) (binaryForm, bool) {
	for pointer.Elem().Kind() == reflect.Pointer {
		if pointer.Elem().IsNil() {
			return nil, false
		}
		pointer = pointer.Elem()
	}
	v := pointer.Interface()
	if _, ok := v.(json.Marshaler); ok {
		return nil, false
	}
	if _, ok := v.(encoding.TextMarshaler); ok {
		return nil, false
	}
	b, ok := v.(binaryForm)
	return b, ok
}

// marshal is a value as bytes.
func marshal(v any) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	pointer := reflect.New(reflect.TypeOf(v))
	pointer.Elem().Set(reflect.ValueOf(v))
	if b, ok := binaryOf(pointer); ok {
		return b.MarshalBinary()
	}
	return json.Marshal(v)
}

// unmarshal is its inverse; into is a pointer.
func unmarshal(data []byte, into any) error {
	pointer := reflect.ValueOf(into)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
		return fmt.Errorf("cannot decode into a %T: it needs a pointer", into)
	}
	if v := pointer.Elem(); v.Kind() == reflect.Pointer && v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	if b, ok := binaryOf(pointer); ok {
		return b.UnmarshalBinary(data)
	}
	return json.Unmarshal(data, into)
}

// Fields of an envelope, beside a step's.
const (
	argsField   = "args"
	outputField = "output"
)

func stepField(name string) string { return "step:" + name }

// An owner is the job that stored bytes are of.
type owner struct {
	id       uuid.UUID
	kind     string
	schedule string // that wrote the job; empty for none
	headers  map[string]string
}

// envelope binds bytes to the kind, too, in front of the field: what is args of one is none of another. The jobs
// of a schedule share their args, so those are bound to the schedule.
func (c *Client) envelope(o owner, field string) codec.Envelope {
	if field == argsField && o.schedule != "" {
		o.id = codec.KeyID("schedule", o.schedule)
	}
	e := codec.NewEnvelope(c.table.Name(), o.id, o.headers)
	e.Field = strconv.Quote(o.kind) + " " + field
	return e
}

// encode is a value as it is stored.
func (c *Client) encode(ctx context.Context, o owner, field string, v any) ([]byte, error) {
	return payload.Encode(ctx, c.codec, c.envelope(o, field), field, v)
}

// decode reads what encode has written.
func (c *Client) decode(ctx context.Context, o owner, field string, stored []byte, into any) error {
	return c.codec.Decode(ctx, c.envelope(o, field), stored, into)
}
