package codec

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// NewID makes the id of a row before it is written, so that its payload can be bound to it: a UUID version 7,
// as the core makes them.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// keySpace sets the ids of keys apart from those of other programs.
var keySpace = uuid.MustParse("6d0f7a2e-3c1b-5d7e-9a44-1f5f0c2b8e61")

// KeyID is the id in the envelope of a row that is found by a key of the application's: the same for the same
// parts, and another for any others. It is a UUID version 8, made of their SHA-256.
func KeyID(parts ...string) uuid.UUID {
	var name []byte
	for _, part := range parts {
		name = binary.AppendUvarint(name, uint64(len(part)))
		name = append(name, part...)
	}
	return uuid.NewHash(sha256.New(), keySpace, name, 8)
}
