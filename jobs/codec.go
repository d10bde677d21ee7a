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

// Args are the arguments of a job: a type of the application's, one for each kind. They are stored as JSON. A type with
// MarshalBinary and UnmarshalBinary, and without a JSON or text form of its own, is stored in its binary form.
//
// Kind names the kind: 1 to [MaxKind] bytes, the same for every value of the type. Jobs outlive deploys, so
// change neither the name nor the meaning of a field while jobs are queued.
type Args interface {
	Kind() string
}

// DefaultCodec is the codec of jobs unless [Options] set another. It encodes JSON, and types with a binary form, see
// [Args], in that form. To encrypt both, make it the inner codec of one that encrypts.
type DefaultCodec struct{}

// Encode implements [codec.Codec].
func (DefaultCodec) Encode(_ context.Context, _ codec.Envelope, v any) ([]byte, error) {
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

// Decode implements [codec.Codec].
func (DefaultCodec) Decode(_ context.Context, _ codec.Envelope, data []byte, into any) error {
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

// A binaryForm is a value that encodes itself as bytes.
type binaryForm interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// binaryOf follows pointers to a value and returns it if it has a binary form. A value that also has a text or JSON
// form is not returned, because people can read those.
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

// Fields of an envelope, in addition to those of steps.
const (
	argsField   = "args"
	outputField = "output"
)

func stepField(name string) string { return "step:" + name }

// An owner is the job to which stored bytes belong.
type owner struct {
	id       uuid.UUID
	kind     string
	schedule string // the schedule that wrote the job; empty for none
	headers  map[string]string
}

// envelope binds bytes to the kind, too, by putting it before the field, so that args of one kind do not pass for args
// of another. The jobs of a schedule share their args, so args are bound to the schedule instead of the job's id.
func (c *Client) envelope(o owner, field string) codec.Envelope {
	if field == argsField && o.schedule != "" {
		o.id = codec.KeyID("schedule", o.schedule)
	}
	e := codec.NewEnvelope(c.table.Name(), o.id, o.headers)
	e.Field = strconv.Quote(o.kind) + " " + field
	return e
}

// encode returns a value in its stored form.
func (c *Client) encode(ctx context.Context, o owner, field string, v any) ([]byte, error) {
	return payload.Encode(ctx, c.codec, c.envelope(o, field), field, v)
}

// decode reads what encode has written.
func (c *Client) decode(ctx context.Context, o owner, field string, stored []byte, into any) error {
	return c.codec.Decode(ctx, c.envelope(o, field), stored, into)
}
