package periodic

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// asideFor is for how long a scheduler leaves a schedule to others after an error that may be its own: its role
	// lacks a right, or its version does not fit the schema.
	asideFor = time.Minute

	// asideSnooze is for how long it then puts the schedule back each time that it claims it.
	asideSnooze = time.Second
)

// An aside is the schedules that a scheduler leaves to others. It goes on with the rest: an error of one schedule, such
// as that of a trigger, must not stop them.
type aside struct {
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func (a *aside) has(id uuid.UUID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[id]
	if ok && time.Now().After(until) {
		delete(a.until, id)
		ok = false
	}
	return ok
}

// add leaves a schedule to others. It reports whether it is the first one.
func (a *aside) add(id uuid.UUID) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = map[uuid.UUID]time.Time{}
	}
	first = len(a.until) == 0
	a.until[id] = time.Now().Add(asideFor)
	return first
}
