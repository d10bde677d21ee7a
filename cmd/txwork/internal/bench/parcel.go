package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"github.com/txwork/txwork/jobs"
)

// DefaultPayload is the payload size of the published figures, in bytes.
const DefaultPayload = 30

// A parcel is the args of a job: size bytes, the first eight of which are its number if there are that many.
type parcel struct {
	number int64
	size   int
}

// Kind implements [jobs.Args].
func (parcel) Kind() string { return "bench" }

var _ jobs.Args = parcel{}

// noise is bytes that cannot be compressed. PostgreSQL compresses large values, and would log and store hardly anything
// of repetitive ones.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, MaxPayload)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it cannot fail
	return b
})

// MarshalBinary makes the bytes the stored args, without JSON around them.
func (p parcel) MarshalBinary() ([]byte, error) {
	b := make([]byte, p.size)
	copy(b, noise())
	if p.size >= 8 {
		binary.BigEndian.PutUint64(b, uint64(p.number))
	}
	return b, nil
}

// UnmarshalBinary is the inverse of MarshalBinary.
func (p *parcel) UnmarshalBinary(b []byte) error {
	p.size = len(b)
	if p.size >= 8 {
		p.number = int64(binary.BigEndian.Uint64(b))
	}
	return nil
}
