//go:build unix

package torture

import (
	"slices"
	"testing"
	"time"
)

func TestWitnessesThatStandStill(t *testing.T) {
	t.Parallel()
	const fast, slow, slack = 100 * time.Millisecond, 2 * time.Second, time.Second
	before := lap{"jobs": fast, "messages": fast, "a timer": slow}
	for _, c := range []struct {
		name   string
		during lap
		want   []string
	}{
		{"as before", before, nil},
		{"a bit longer", lap{"jobs": slack, "messages": slower*fast + slack}, nil},
		{"one", lap{"jobs": fast, "messages": slower*fast + slack + 1, "a timer": slow}, []string{"messages"}},
		{"what was slow before may be slow", lap{"jobs": slower * slow, "a timer": slower * slow}, []string{"jobs"}},
	} {
		if got := c.during.stalled(before, slack); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q stand still, want %q", c.name, got, c.want)
		}
	}
	if got := before.longer(lap{"jobs": slow}); got["jobs"] != slow || got["messages"] != fast {
		t.Errorf("the longer of both are %v", got)
	}
}
