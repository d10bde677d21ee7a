package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

// Offset is the jitter of one occurrence, by which it fires after its nominal time, in whole microseconds: 0 <= Offset
// < Jitter. It is the same on every machine and in every version: the first eight bytes, big-endian, of the SHA-256 of
// the name, a zero byte and the nominal time as decimal Unix microseconds, modulo Jitter in microseconds.
func (r Rule) Offset(name string, nominal time.Time) time.Duration {
	span := uint64(max(r.Jitter, 0) / time.Microsecond)
	if span == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(name + "\x00" + strconv.FormatInt(nominal.UnixMicro(), 10)))
	return time.Duration(binary.BigEndian.Uint64(sum[:])%span) * time.Microsecond
}
