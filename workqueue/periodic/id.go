package periodic

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// occurrenceID derives the id of an occurrence, so that it is the same whenever the occurrence is written: a handler
// that ran before the database was restored to an earlier moment has used it as an idempotency key. It is a UUID
// version 7 whose time is the nominal time and whose other 74 bits are a hash of the schedule and the key.
//
// The schedule is hashed by the id of its row, because schedules of other schemas and databases may have the same name
// and the same receivers. The key is hashed too, so that occurrences with one id always conflict by their keys first.
func occurrenceID(schedule uuid.UUID, key string, nominal time.Time) (id uuid.UUID) {
	hash := sha256.Sum256(append(schedule[:], key...))
	copy(id[6:], hash[:])
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(max(nominal.UnixMilli(), 0)))
	copy(id[:6], at[2:])
	id[6] = id[6]&0x0f | 0x70 // the version
	id[8] = id[8]&0x3f | 0x80 // the variant
	return id
}
