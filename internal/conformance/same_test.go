package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/workqueue"
)

// Whatever runs by one way and not by the other is told, and so is an exception that is none any more.
func TestDifferencesOfTheWays(t *testing.T) {
	c := Case{Spec: workqueue.Spec{Sweeps: []string{"sweep"}}}
	tests := func(add ...string) map[string]bool {
		all := map[string]bool{"claim/order": true}
		for _, name := range add {
			all[name] = true
		}
		return all
	}
	var exceptions []string
	for _, e := range onlyInGo {
		if e.of == nil || e.of(c) {
			exceptions = append(exceptions, strings.ReplaceAll(e.name, " ", "_"))
		}
	}
	for _, ways := range []struct {
		inGo, inSQL map[string]bool
		problems    int
	}{
		{tests(exceptions...), tests(), 0},
		{tests(exceptions...), tests("settle/function_each/ack"), 0},
		{tests(append(slices.Clone(exceptions), "claim/order/late")...), tests(), 1},
		{tests(exceptions...), tests("claim/order/late"), 1},
		{tests(exceptions...), tests(exceptions[0]), 1},
		{tests(exceptions[1:]...), tests(), 1},
	} {
		if problems := differences(ways.inGo, ways.inSQL, c); len(problems) != ways.problems {
			t.Errorf("%v and %v: got %s, want %d problems", ways.inGo, ways.inSQL, fmt.Sprintf("%q", problems),
				ways.problems)
		}
	}
}
