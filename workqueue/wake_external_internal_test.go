package workqueue

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// One External of a table is told that it is the first: one that has messages, and need not wait for a cooldown. Those
// before it that have to are told so, too.
func TestOneExternalIsTheFirst(t *testing.T) {
	t.Parallel()
	var first []bool
	var hearing []*Worker
	for _, cooldown := range []time.Duration{0, time.Hour, 0, 0} {
		w := &Worker{options: WorkerOptions{ClaimCooldown: cooldown}}
		w.external.Store(&hears{heard: func(_ string, isFirst bool) { first = append(first, isFirst) }})
		hearing = append(hearing, w)
	}
	refused := errors.New("no subscription")
	hearing[0].refused.Store(&refused)
	(&tableWork{hearing: hearing}).heardExternal("")
	if want := []bool{false, true, true, false}; !slices.Equal(first, want) {
		t.Errorf("told to be the first: %v, want %v", first, want)
	}
}
