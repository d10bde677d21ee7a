package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/codec"
)

type order struct {
	ID    int      `json:"id"`
	Items []string `json:"items,omitempty"`
}

var envelope = codec.NewEnvelope("txwork.outbox", uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), nil)

func TestEnvelopeHasTheTenantOfTheHeaders(t *testing.T) {
	t.Parallel()
	e := codec.NewEnvelope("txwork.outbox", codec.NewID(), map[string]string{codec.TenantHeader: "acme"})
	if e.Tenant != "acme" {
		t.Errorf("tenant %q, want acme", e.Tenant)
	}
	e = codec.NewEnvelope("txwork.outbox", codec.NewID(), map[string]string{"Txwork-Tenant": "acme"})
	if e.Tenant != "acme" {
		t.Errorf("tenant %q by a name with capital letters, want acme", e.Tenant)
	}
	if e := codec.NewEnvelope("txwork.outbox", codec.NewID(), nil); e.Tenant != "" {
		t.Errorf("tenant %q without headers, want none", e.Tenant)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	want := order{ID: 7, Items: []string{"book"}}
	data, err := codec.JSON{}.Encode(t.Context(), envelope, want)
	if err != nil || string(data) != `{"id":7,"items":["book"]}` {
		t.Fatalf("%s, %v", data, err)
	}
	var got order
	if err := (codec.JSON{}).Decode(t.Context(), envelope, data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestJSONRefuses(t *testing.T) {
	t.Parallel()
	if _, err := (codec.JSON{}).Encode(t.Context(), envelope, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	for _, data := range []string{"", "{", `{"id":"seven"}`, `{"id":7} and more`, "\x00"} {
		if err := (codec.JSON{}).Decode(t.Context(), envelope, []byte(data), &order{}); err == nil {
			t.Errorf("%q was decoded", data)
		}
	}
}

func TestRawPassesBytesThrough(t *testing.T) {
	t.Parallel()
	for _, v := range []any{[]byte("a\x00b"), json.RawMessage(`{"a":1}`), "text", "", []byte(nil)} {
		data, err := codec.Raw{}.Encode(t.Context(), envelope, v)
		if err != nil || data == nil {
			t.Errorf("%T: %v, %v", v, data, err)
		}
		into := reflect.New(reflect.TypeOf(v))
		err = codec.Raw{}.Decode(t.Context(), envelope, data, into.Interface())
		if got := into.Elem().Convert(reflect.TypeFor[[]byte]()).Bytes(); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%T: got %q of %q, %v", v, got, data, err)
		}
	}
}

func TestRawKeepsNothingOfTheCallers(t *testing.T) {
	t.Parallel()
	source := []byte("abc")
	data, err := codec.Raw{}.Encode(t.Context(), envelope, source)
	if err != nil {
		t.Fatal(err)
	}
	source[0] = 'x'
	var got []byte
	if err := (codec.Raw{}).Decode(t.Context(), envelope, data, &got); err != nil {
		t.Fatal(err)
	}
	data[1] = 'x'
	if string(got) != "abc" {
		t.Errorf("got %q", got)
	}
}

func TestRawRefuses(t *testing.T) {
	t.Parallel()
	for _, v := range []any{nil, 7, order{}, &order{}, []int{1}, new([]byte)} {
		if _, err := (codec.Raw{}).Encode(t.Context(), envelope, v); err == nil ||
			!strings.Contains(err.Error(), "[]byte, string") {
			t.Errorf("%T: %v", v, err)
		}
	}
	for name, into := range map[string]any{
		"a struct": &order{}, "no pointer": []byte{}, "nothing": nil, "nil": (*[]byte)(nil),
		"a nil string": (*string)(nil),
	} {
		if err := (codec.Raw{}).Decode(t.Context(), envelope, []byte("a"), into); err == nil {
			t.Errorf("decoded into %s", name)
		}
	}
	var s string
	if err := (codec.Raw{}).Decode(t.Context(), envelope, []byte("\xff\xfe"), &s); err == nil ||
		!strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("bytes into a string: %v", err)
	}
}

func TestNewIDGrowsWithTime(t *testing.T) {
	t.Parallel()
	a, b := codec.NewID(), codec.NewID()
	if a.Version() != 7 || bytes.Compare(a[:], b[:]) >= 0 {
		t.Errorf("%v then %v", a, b)
	}
}

func TestKeyIDIsOfItsPartsOnly(t *testing.T) {
	t.Parallel()
	if one, again := codec.KeyID("a", "b"), codec.KeyID("a", "b"); one != again {
		t.Error("the same parts have two ids")
	}
	seen := map[uuid.UUID][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"b", "a"},
		{"\x01a"}, {"a"}} {
		id := codec.KeyID(parts...)
		if other, taken := seen[id]; taken || id.Version() != 8 {
			t.Errorf("%q has the id %v, as %q has", parts, id, other)
		}
		seen[id] = parts
	}
}

// delivery has what the codec needs of a domain's delivery.
type delivery struct {
	codec.Envelope
	codec   codec.Codec
	payload []byte
}

func (d *delivery) Decode(ctx context.Context, into any) error {
	return d.codec.Decode(ctx, d.Envelope, d.payload, into)
}

func TestHandlerGetsTheDecodedValue(t *testing.T) {
	t.Parallel()
	var got order
	h := codec.Handler(func(_ context.Context, d *delivery, o order) error { got = o; return errors.New(d.Table) })
	err := h(t.Context(), &delivery{envelope, codec.JSON{}, []byte(`{"id":7}`)})
	if got.ID != 7 || err == nil || err.Error() != envelope.Table {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHandlerInGetsTheTransaction(t *testing.T) {
	t.Parallel()
	h := codec.HandlerIn(func(_ context.Context, tx string, _ *delivery, o *order) error {
		if tx != "tx" || o.ID != 7 {
			t.Errorf("%q, %+v", tx, o)
		}
		return nil
	})
	if err := h(t.Context(), "tx", &delivery{envelope, codec.JSON{}, []byte(`{"id":7}`)}); err != nil {
		t.Error(err)
	}
}

func TestWhatDoesNotDecodeIsAnErrorOfTheHandler(t *testing.T) {
	t.Parallel()
	d := &delivery{envelope, codec.JSON{}, []byte(`{"id":"seven"}`)}
	called := func(context.Context, *delivery, order) error { t.Error("called"); return nil }
	calledIn := func(context.Context, int, *delivery, order) error { t.Error("called"); return nil }
	_, bound := codec.Bind[order](nil, envelope.Table).Decode(t.Context(), envelope.ID, nil, d.payload)
	for name, err := range map[string]error{
		"Handler": codec.Handler(called)(t.Context(), d), "HandlerIn": codec.HandlerIn(calledIn)(t.Context(), 1, d),
		"Bind": bound,
	} {
		var refused *codec.DecodeError
		var cause *json.UnmarshalTypeError
		if !errors.As(err, &refused) || refused.Type != "codec_test.order" || !errors.As(err, &cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBindRoundTrip(t *testing.T) {
	t.Parallel()
	b := codec.Bind[order](nil, "txwork.outbox")
	id := codec.NewID()
	data, err := b.Encode(t.Context(), id, nil, order{ID: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Decode(t.Context(), id, nil, data); err != nil || got.ID != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := codec.Bind[chan int](nil, "a.b").Encode(t.Context(), id, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "chan int") {
		t.Errorf("a channel: %v", err)
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"id":7,"items":["a"]}`, `[]`, `null`, ``, `{"id":1e99}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var o order
		if (codec.JSON{}).Decode(t.Context(), envelope, data, &o) != nil {
			return
		}
		again, err := codec.JSON{}.Encode(t.Context(), envelope, o)
		var p order
		if err != nil || (codec.JSON{}).Decode(t.Context(), envelope, again, &p) != nil || p.ID != o.ID {
			t.Errorf("%+v became %s", o, again)
		}
	})
}
