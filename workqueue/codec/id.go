package codec

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// NewID returns an id for a row that is not written yet, so that its payload can be bound to the id. It is a UUID
// version 7, like the ids that the core makes.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// keySpace is the UUID namespace of KeyID.
var keySpace = uuid.MustParse("6d0f7a2e-3c1b-5d7e-9a44-1f5f0c2b8e61")

// KeyID returns the id for the envelope of a row that is found by a key of the application. The same parts give the
// same id, and different parts a different one. It is a UUID version 8, made from the SHA-256 of the parts.
func KeyID(parts ...string) uuid.UUID {
	var name []byte
	for _, part := range parts {
		name = binary.AppendUvarint(name, uint64(len(part)))
		name = append(name, part...)
	}
	return uuid.NewHash(sha256.New(), keySpace, name, 8)
}
