package codec

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/uuid"
)

// A Binding encodes and decodes the payloads of one type in one table. It is safe for concurrent use.
type Binding[T any] struct {
	codec Codec
	table string
}

// Bind binds a codec to a type and to a table, given by its qualified name as workqueue.Table.Name returns it. If the
// codec is nil, Bind uses [JSON].
func Bind[T any](c Codec, table string) Binding[T] {
	if c == nil {
		c = JSON{}
	}
	return Binding[T]{codec: c, table: table}
}

// Encode returns the payload of a row that you are about to write with this id (see [NewID]) and these headers, which
// may be nil.
func (b Binding[T]) Encode(ctx context.Context, id uuid.UUID, headers map[string]string, v T) ([]byte, error) {
	data, err := b.codec.Encode(ctx, NewEnvelope(b.table, id, headers), v)
	if err != nil {
		return nil, fmt.Errorf("txwork: cannot encode a payload of type %v: %w", reflect.TypeFor[T](), err)
	}
	return data, nil
}

// Decode decodes a row's payload. An error is a [*DecodeError]; return it from the handler.
func (b Binding[T]) Decode(ctx context.Context, id uuid.UUID, headers map[string]string, data []byte) (v T, err error) {
	err = b.codec.Decode(ctx, NewEnvelope(b.table, id, headers), data, &v)
	return v, decodeError[T](err)
}
