package workqueue

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/google/uuid"
)

// processBytes is how much of an owner token is the id of its process.
const processBytes = 6

// processID is the id of this process.
var processID = newProcessID()

func newProcessID() (id [processBytes]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// processName is that id as the beginning of every token has it.
func processName() string { return hex.EncodeToString(processID[:]) }

// newToken returns an owner token for one claim: 48 bits of the process, 74 random ones, and the six that make it a
// UUID of version 8. So the rows of a process can be recognised, while a settle is still guarded by a value that no
// other claim has.
func newToken() uuid.UUID {
	token := uuid.New()
	copy(token[:], processID[:])
	token[6] = 0x80 | token[6]&0x0f
	return token
}
