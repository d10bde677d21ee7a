package periodic

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestOccurrenceID(t *testing.T) {
	t.Parallel()
	schedule := uuid.MustParse("0191c1a2-0000-7000-8000-000000000001")
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	id := occurrenceID(schedule, "schedule/s/2030-01-31T09:00:00Z", at)
	// Receivers have stored such ids: another derivation would repeat their work.
	if want := "01b97732-de80-789c-854c-da8441d04267"; id.String() != want {
		t.Errorf("got %v, want %s", id, want)
	}
	if sec, nsec := id.Time().UnixTime(); !time.Unix(sec, nsec).Equal(at) || id.Version() != 7 ||
		id.Variant() != uuid.RFC4122 {
		t.Errorf("%v is a UUID version %d of %v", id, id.Version(), time.Unix(sec, nsec))
	}
	ids := map[uuid.UUID]bool{id: true}
	for _, other := range []uuid.UUID{
		occurrenceID(uuid.MustParse("0191c1a2-0000-7000-8000-000000000002"), "schedule/s/2030-01-31T09:00:00Z", at),
		occurrenceID(schedule, "schedule/t/2030-01-31T09:00:00Z", at),
		occurrenceID(schedule, "schedule/s/1900-01-01T00:00:00Z", time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)),
		occurrenceID(schedule, "schedule/s/1900-01-01T00:00:01Z", time.Date(1900, 1, 1, 0, 0, 1, 0, time.UTC)),
	} {
		if ids[other] || other.Version() != 7 {
			t.Errorf("%v is not a new UUID version 7", other)
		}
		ids[other] = true
	}
}
