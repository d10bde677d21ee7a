//go:build unix

package torture

import (
	"testing"
	"time"
)

// Whoever renews a leadership while another reaper is stopped is running. A renewal of the stopped one may be on its
// way to the server when it is stopped: to take that reaper for the victim would blame one that can serve its tables.
func TestWhoLeadsWhileAnotherIsStopped(t *testing.T) {
	t.Parallel()
	at := func(holder string, seconds int64) grant { return grant{holder, time.Unix(seconds, 0)} }
	none := grant{}
	for name, c := range map[string]struct {
		seen []grant
		want string
	}{
		"the other one has led already": {
			[]grant{at("victim", 1), at("victim", 2), at("victim", 3)}, "victim"},
		"a renewal of the stopped one on its way": {
			[]grant{at("stopped", 1), at("stopped", 2), at("stopped", 2)}, ""},
		"an election of the stopped one on its way": {
			[]grant{at("old", 1), at("stopped", 2), at("stopped", 2)}, ""},
		"the lease of the stopped one has to end": {
			[]grant{at("stopped", 1), at("victim", 2), at("victim", 2)}, ""},
		"the other one has taken over": {
			[]grant{at("stopped", 1), at("victim", 2), at("victim", 3), at("victim", 4)}, "victim"},
		"nobody leads at first": {
			[]grant{none, none, none, at("victim", 1), at("victim", 2), at("victim", 3)}, "victim"},
		"the stopped one resigns on its way": {
			[]grant{at("stopped", 1), none, none, none}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen renewals
			got := ""
			for _, g := range c.seen {
				if seen.show(g) {
					got = g.holder
				}
			}
			if got != c.want {
				t.Errorf("%q is running, want %q", got, c.want)
			}
		})
	}
}
