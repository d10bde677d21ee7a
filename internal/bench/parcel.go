package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"github.com/txwork/txwork/jobs"
)

// DefaultPayload is the size of the published figures, in bytes.
const DefaultPayload = 30

// A parcel is the args of a job: so many bytes, of which the first eight are its number where they fit.
type parcel struct {
	number int64
	size   int
}

// Kind implements [jobs.Args].
func (parcel) Kind() string { return "bench" }

var _ jobs.Args = parcel{}

// noise is what nothing compresses: PostgreSQL tries to where a value is large, and would log and store hardly anything
// of one that repeats itself.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, MaxPayload)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it cannot fail
	return b
})

// MarshalBinary makes that the args as they are stored, without the JSON around them.
func (p parcel) MarshalBinary() ([]byte, error) {
	b := make([]byte, p.size)
	copy(b, noise())
	if p.size >= 8 {
		binary.BigEndian.PutUint64(b, uint64(p.number))
	}
	return b, nil
}

// UnmarshalBinary is its inverse.
func (p *parcel) UnmarshalBinary(b []byte) error {
	p.size = len(b)
	if p.size >= 8 {
		p.number = int64(binary.BigEndian.Uint64(b))
	}
	return nil
}
