package aesgcm_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

// A sealed payload opens to the same bytes. It does not open if a bit of it, or of its row's identity, has changed.
func FuzzSeal(f *testing.F) {
	c := newCodec(f, aesgcm.Options{Current: key("k")})
	f.Add([]byte("secret"), "txwork.outbox", "tenant", "", uint16(3))
	f.Add([]byte{}, "", "", "", uint16(0))
	f.Add([]byte("a"), "ab", "c", "d", uint16(900))
	f.Fuzz(func(t *testing.T, plain []byte, table, tenant, field string, flip uint16) {
		e := codec.Envelope{Table: table, ID: uuid.Max, Field: field, Tenant: tenant}
		sealed := c.Seal(e, plain)
		if got, err := c.Open(e, sealed); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%q opens to %q, error %v", plain, got, err)
		}
		changed := bytes.Clone(sealed)
		changed[int(flip)%len(sealed)] ^= 1 << (flip % 8)
		if got, err := c.Open(e, changed); err == nil {
			t.Fatalf("with bit %d changed it opens to %q", flip, got)
		}
		for _, other := range []codec.Envelope{
			{Table: table + "x", ID: e.ID, Field: field, Tenant: tenant}, {Table: table, ID: uuid.Nil, Field: field,
				Tenant: tenant},
			{Table: table, ID: e.ID, Field: field + "x", Tenant: tenant}, {Table: table, ID: e.ID, Field: field,
				Tenant: tenant + "x"},
			{Table: table, ID: e.ID, Field: tenant + "x", Tenant: field},
		} {
			if got, err := c.Open(other, sealed); err == nil {
				t.Fatalf("as %+v what was sealed as %+v opens to %q", other, e, got)
			}
		}
	})
}
