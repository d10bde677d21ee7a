package aesgcm_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

func key(id string) aesgcm.Key {
	return aesgcm.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)}
}

func newCodec(t testing.TB, o aesgcm.Options) *aesgcm.Codec {
	t.Helper()
	c, err := aesgcm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const secret = "the-patient-has-a-cold"

func envelope() codec.Envelope {
	return codec.NewEnvelope("txwork.outbox", codec.KeyID("row"), map[string]string{codec.TenantHeader: "acme",
		"other": "x"})
}

func encode(t testing.TB, c *aesgcm.Codec, e codec.Envelope) []byte {
	t.Helper()
	data, err := c.Encode(t.Context(), e, secret)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTripHidesThePayload(t *testing.T) {
	t.Parallel()
	for _, size := range []int{16, 24, 32} {
		c := newCodec(t, aesgcm.Options{Current: aesgcm.Key{ID: "k", Secret: make([]byte, size)}})
		data := encode(t, c, envelope())
		if bytes.Contains(data, []byte("patient")) {
			t.Errorf("AES-%d: the payload can be read", size*8)
		}
		var got string
		if err := c.Decode(t.Context(), envelope(), data, &got); err != nil || got != secret {
			t.Errorf("AES-%d: %q, %v", size*8, got, err)
		}
	}
}

func TestFormatIsAsDocumented(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k1"), Inner: codec.Raw{}})
	data := encode(t, c, envelope())
	if !bytes.HasPrefix(data, []byte("\x01\x02k1")) || len(data) != 4+12+len(secret)+16 {
		t.Errorf("% x", data)
	}
}

func TestTheSamePayloadIsNeverTheSameTwice(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k")})
	if bytes.Equal(encode(t, c, envelope()), encode(t, c, envelope())) {
		t.Error("the nonce was repeated")
	}
}

func TestAnEmptyPayloadIsAuthenticated(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k"), Inner: codec.Raw{}})
	sealed := c.Seal(envelope(), nil)
	if plain, err := c.Open(envelope(), sealed); err != nil || plain == nil || len(plain) != 0 {
		t.Errorf("%q, %v", plain, err)
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := c.Open(envelope(), sealed); !errors.Is(err, aesgcm.ErrAuthentication) {
		t.Error(err)
	}
}

func TestACopyDoesNotOpen(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k")})
	data := encode(t, c, envelope())
	for name, change := range map[string]func(*codec.Envelope){
		"another row":                 func(e *codec.Envelope) { e.ID = codec.NewID() },
		"another table":               func(e *codec.Envelope) { e.Table = "txwork.inbox" },
		"another tenant":              func(e *codec.Envelope) { e.Tenant = "other" },
		"no tenant":                   func(e *codec.Envelope) { e.Tenant = "" },
		"another field":               func(e *codec.Envelope) { e.Field = "output" },
		"bytes between the parts":     func(e *codec.Envelope) { e.Field, e.Tenant = "a", "cme" },
		"the tenant as another field": func(e *codec.Envelope) { e.Field, e.Tenant = e.Tenant, "" },
	} {
		e := envelope()
		change(&e)
		if _, err := c.Open(e, data); !errors.Is(err, aesgcm.ErrAuthentication) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := envelope()
	e.Headers = map[string]string{"traceparent": "added later"}
	if _, err := c.Open(e, data); err != nil {
		t.Errorf("headers were changed: %v", err)
	}
}

func TestEveryChangedBitIsFound(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k1"), Older: []aesgcm.Key{key("k0"), key("c1")}})
	data := encode(t, c, envelope())
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			refused(t, c, changed)
		}
		refused(t, c, data[:i])
	}
	refused(t, c, append(bytes.Clone(data), 0))
}

// refused expects an error that reveals nothing.
func refused(t *testing.T, c *aesgcm.Codec, data []byte) {
	t.Helper()
	var got string
	err := c.Decode(t.Context(), envelope(), data, &got)
	var open *aesgcm.OpenError
	if !errors.As(err, &open) || got != "" || strings.Contains(err.Error(), "patient") {
		t.Fatalf("% x: %q, %v", data, got, err)
	}
}

func TestErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	data := encode(t, newCodec(t, aesgcm.Options{Current: key("old")}), envelope())
	other := newCodec(t, aesgcm.Options{Current: key("new")})
	_, err := other.Open(envelope(), data)
	if !errors.Is(err, aesgcm.ErrUnknownKey) || err.Error() != `aesgcm: the payload's key "old" is not known here` {
		t.Error(err)
	}
	sameName := newCodec(t, aesgcm.Options{Current: aesgcm.Key{ID: "old", Secret: make([]byte, 32)}})
	if _, err := sameName.Open(envelope(), data); !errors.Is(err, aesgcm.ErrAuthentication) ||
		!strings.Contains(err.Error(), `"old"`) {
		t.Error(err)
	}
	for _, data := range []string{"", "\x01", "{}", "\x02\x01k", "\x01\x09k", "\x01\x00", "\x01\x01\n",
		"\x01\x03newtoo short"} {
		_, err := other.Open(envelope(), []byte(data))
		if !errors.Is(err, aesgcm.ErrFormat) || !strings.Contains(err.Error(), "the payload is not in the format") {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// The inner codec's errors quote what they refuse.
func TestWhatTheInnerCodecRefusesIsNotQuoted(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k")})
	data := c.Seal(envelope(), []byte(`{"n": 98765432109876543210}`))
	var into struct{ N int }
	err := c.Decode(t.Context(), envelope(), data, &into)
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), (&codec.DecodeError{Err: err}).Error()} {
		if err == nil || strings.Contains(text, "98765") || !strings.Contains(text, `"k"`) ||
			!strings.Contains(text, "UnmarshalTypeError") {
			t.Error(text)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before := newCodec(t, aesgcm.Options{Current: key("1")})
	prepared := newCodec(t, aesgcm.Options{Current: key("1"), Older: []aesgcm.Key{key("2")}})
	rotated := newCodec(t, aesgcm.Options{Current: key("2"), Older: []aesgcm.Key{key("1")}})
	finished := newCodec(t, aesgcm.Options{Current: key("2")})
	for name, step := range map[string]struct {
		seals, opens *aesgcm.Codec
		want         error
	}{
		"while the new key is deployed":     {before, prepared, nil},
		"the other way":                     {prepared, before, nil},
		"while it becomes the current one":  {rotated, prepared, nil},
		"rows of before":                    {before, rotated, nil},
		"while the old one is taken away":   {rotated, finished, nil},
		"too early: rows of before":         {before, finished, aesgcm.ErrUnknownKey},
		"too early: not yet known anywhere": {rotated, before, aesgcm.ErrUnknownKey},
	} {
		if _, err := step.opens.Open(envelope(), encode(t, step.seals, envelope())); !errors.Is(err, step.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if id, err := aesgcm.KeyID(encode(t, rotated, envelope())); id != "2" || err != nil {
		t.Errorf("key id %q, %v", id, err)
	}
	if _, err := aesgcm.KeyID([]byte("{}")); !errors.Is(err, aesgcm.ErrFormat) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]aesgcm.Options{
		`key id "" must`:              {},
		`key id "a b" must`:           {Current: key("a b")},
		`key "k" has 31 bytes`:        {Current: aesgcm.Key{ID: "k", Secret: []byte(strings.Repeat("S", 31))}},
		`key "k" has 0 bytes`:         {Current: aesgcm.Key{ID: "k"}},
		`there are two keys "k"`:      {Current: key("k"), Older: []aesgcm.Key{key("k")}},
		`must be 1 to 64 letters`:     {Current: key(strings.Repeat("k", 65))},
		`key "old" has 3 bytes, it m`: {Current: key("k"), Older: []aesgcm.Key{{ID: "old", Secret: []byte("SSS")}}},
	} {
		if _, err := aesgcm.New(o); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "SSS") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestAFailedEncodeSealsNothing(t *testing.T) {
	t.Parallel()
	c := newCodec(t, aesgcm.Options{Current: key("k"), Inner: codec.Raw{}})
	if data, err := c.Encode(t.Context(), envelope(), 7); err == nil || data != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// The query in the package documentation.
func TestTheDatabaseTellsTheKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	data := encode(t, newCodec(t, aesgcm.Options{Current: key("2026-01")}), envelope())
	var id string
	err := db.Pool.QueryRow(t.Context(), "SELECT convert_from(substr(payload, 3, get_byte(payload, 1)), 'UTF8') FROM "+
		"(VALUES ($1::bytea)) AS o (payload)", data).Scan(&id)
	if id != "2026-01" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}

func FuzzOpen(f *testing.F) {
	c := newCodec(f, aesgcm.Options{Current: key("k"), Inner: codec.Raw{}})
	sealed := c.Seal(envelope(), []byte(secret))
	for _, seed := range [][]byte{sealed, sealed[:20], nil, []byte("\x01\x01k"), []byte("\x01\xffk"), []byte("{}")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := c.Open(envelope(), data)
		// only Seal makes what opens; other fuzzing processes have sealed the seed again
		if err == nil && string(plain) != secret {
			t.Errorf("% x opened as %q", data, plain)
		}
		if err != nil && plain != nil {
			t.Errorf("%q beside %v", plain, err)
		}
	})
}
