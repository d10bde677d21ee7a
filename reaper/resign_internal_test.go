package reaper

import (
	"slices"
	"testing"
	"time"
)

// A reaper that has resigned from a table stands for the others only, for as long as it has said.
func TestWhoResignedDoesNotStand(t *testing.T) {
	now := time.Now()
	r := &reaper{names: []string{"a", "b", "c"}, back: map[string]time.Time{"b": now.Add(time.Second)}}
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{
		{0, []string{"a", "c"}},
		{time.Second - 1, []string{"a", "c"}},
		{time.Second, []string{"a", "b", "c"}},
	} {
		if got := r.stands(now.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("after %v it stands for %v, want %v", c.after, got, c.want)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(r.names, want) {
		t.Errorf("its tables are %v, want %v", r.names, want)
	}
}
