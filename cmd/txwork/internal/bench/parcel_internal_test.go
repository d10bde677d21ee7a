package bench

import (
	"bytes"
	"compress/flate"
	"testing"
)

func TestAParcelCannotBeCompressed(t *testing.T) {
	for _, size := range []int{0, 7, 8, 30, 100_000} {
		b, err := parcel{number: 7, size: size}.MarshalBinary()
		if err != nil || len(b) != size {
			t.Fatalf("%d bytes, %v; want %d", len(b), err, size)
		}
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(b)
		if err := w.Close(); err != nil || packed.Len() < size {
			t.Errorf("%d bytes become %d, %v", size, packed.Len(), err)
		}
	}
}

func TestAParcelKeepsItsNumber(t *testing.T) {
	var p parcel
	b, _ := parcel{number: 1 << 40, size: 8}.MarshalBinary()
	if err := p.UnmarshalBinary(b); err != nil || p != (parcel{1 << 40, 8}) {
		t.Errorf("got %+v, %v", p, err)
	}
}
