package periodic

import (
	"time"

	"github.com/txwork/txwork/schedule"
)

// A verdict says what happens to the occurrences that a schedule owes.
type verdict struct {
	start    []time.Time
	buffered *time.Time // waits for the end of another
	skipped  int
}

// judge applies the overlap policy to the owed occurrences one by one, oldest first: the first one that may start is
// live for those after it.
func judge(policy schedule.Overlap, owed []time.Time, live int) verdict {
	if policy == schedule.OverlapAllow || len(owed) == 0 {
		return verdict{start: owed}
	}
	var v verdict
	if live == 0 {
		v.start, owed = owed[:1], owed[1:]
	}
	if policy == schedule.OverlapBuffer && len(owed) > 0 {
		v.buffered, owed = &owed[0], owed[1:]
	}
	v.skipped = len(owed)
	return v
}
