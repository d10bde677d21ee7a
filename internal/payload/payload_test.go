package payload_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

var errOwn = errors.New("own")

// sealing is a codec that seals, fails, or returns nothing.
type sealing struct {
	codec.JSON
	err error
}

func (s sealing) Encode(context.Context, codec.Envelope, any) ([]byte, error) { return nil, s.err }
func (sealing) Open(_ codec.Envelope, sealed []byte) ([]byte, error)          { return sealed[1:], nil }
func encode(c codec.Codec, v any, given []byte) ([]byte, error) {
	return payload.Of(context.Background(), c, codec.Envelope{}, v, given)
}

func TestOf(t *testing.T) {
	t.Parallel()
	if data, err := encode(codec.JSON{}, nil, nil); data != nil || err != nil {
		t.Errorf("nothing: %q, %v", data, err)
	}
	if data, err := encode(codec.JSON{}, nil, []byte("as it is")); string(data) != "as it is" || err != nil {
		t.Errorf("bytes: %q, %v", data, err)
	}
	if data, err := encode(codec.JSON{}, "v", nil); string(data) != `"v"` || err != nil {
		t.Errorf("a value: %q, %v", data, err)
	}
	if data, err := encode(sealing{}, "v", nil); data == nil || err != nil {
		t.Errorf("a value of no bytes: %v, %v", data, err)
	}
	if _, err := encode(codec.JSON{}, "v", []byte{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("both: %v", err)
	}
}

func TestAnErrorOfEncodingIsInvalidAndTheCodecs(t *testing.T) {
	t.Parallel()
	_, err := encode(sealing{err: errOwn}, 7, nil)
	var invalid *workqueue.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "value" || !errors.Is(err, errOwn) ||
		err.Error() != "txwork: value of type int cannot be encoded: own" {
		t.Errorf("error %v", err)
	}
}

func TestAnErrorOfDecodingNamesTheType(t *testing.T) {
	t.Parallel()
	n := 0
	for want, into := range map[string]any{"int": &n, "nil": nil, "string": "no pointer"} {
		err := payload.Decode(t.Context(), nil, codec.Envelope{}, []byte("{"), into)
		var wrong *codec.DecodeError
		if !errors.As(err, &wrong) || wrong.Type != want {
			t.Errorf("into %T: %v, want type %s", into, err, want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for c, want := range map[codec.Codec]string{codec.JSON{}: "xv", sealing{}: "v"} {
		if got, err := payload.Plain(c, codec.Envelope{}, []byte("xv")); string(got) != want || err != nil {
			t.Errorf("%T: %q, %v", c, got, err)
		}
	}
}
