package jobs

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/uuid"
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

// A Codec rewrites what is stored, for example to encrypt it: args, outputs and results of steps. It must be
// safe for concurrent use. What Open refuses is a failed attempt with that error.
type Codec interface {
	Seal(b Binding, plain []byte) ([]byte, error)
	Open(b Binding, sealed []byte) ([]byte, error)
}

// A Binding says what stored bytes belong to, so that a [Codec] can bind them to it: bytes that were copied
// from one row or field to another are then refused.
type Binding struct {
	Table string // qualified
	ID    uuid.UUID
	Kind  string
	Field string // args, output, or step:<name>
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

// plainCodec stores bytes as they are.
type plainCodec struct{}

func (plainCodec) Seal(_ Binding, plain []byte) ([]byte, error)  { return plain, nil }
func (plainCodec) Open(_ Binding, sealed []byte) ([]byte, error) { return sealed, nil }

// encode is a value as it is stored.
func (c *Client) encode(b Binding, v any) ([]byte, error) {
	plain, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return c.seal(b, plain)
}

func (c *Client) seal(b Binding, plain []byte) ([]byte, error) {
	b.Table = c.table.Name()
	return c.codec.Seal(b, plain)
}

// decode reads what encode has written.
func (c *Client) decode(b Binding, stored []byte, into any) error {
	b.Table = c.table.Name()
	plain, err := c.codec.Open(b, stored)
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", b.Field, err)
	}
	return unmarshal(plain, into)
}
