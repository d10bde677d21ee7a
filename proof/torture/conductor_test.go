//go:build unix

package torture

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Each round is another order of all faults. Quiet ones come in groups.
func TestEveryFaultHasItsTurn(t *testing.T) {
	t.Parallel()
	c := newConductor(&lab{}, Faults(), 1)
	first, second := c.deal(), c.deal()
	for _, round := range [][]string{first, second} {
		if got := slices.Sorted(slices.Values(round)); !slices.Equal(got, Faults()) {
			t.Errorf("a round has the faults %v", got)
		}
	}
	if slices.Equal(first, second) {
		t.Errorf("two rounds have the same order: %v", first)
	}
	quiet, groups, before := 0, 0, false
	for _, name := range first {
		now := isQuiet(c.faults[name])
		if now {
			quiet++
		}
		if now && !before {
			groups++
		}
		before = now
	}
	if most := (quiet + quietGroup - 1) / quietGroup; groups > most {
		t.Errorf("%d quiet faults are in %d groups, want %d at most: %v", quiet, groups, most, first)
	}
}

// A staged fault does what a test says.
type staged struct {
	plain
	strikes *[]string
	does    func(earlier int) error // given how often it had its turn before
	name    string
	turns   int
}

func (s *staged) strike(context.Context, *lab, *rand.Rand) (string, error) {
	*s.strikes = append(*s.strikes, s.name)
	s.turns++
	return "", s.does(s.turns - 1)
}

// What came to nothing comes again at the end of the round, a few times. Then the round is complete.
func TestAStrikeThatComesToNothingComesAgain(t *testing.T) {
	t.Parallel()
	var turns []string
	c := newConductor(&lab{options: Options{Progress: io.Discard}}, nil, 1)
	for name, does := range map[string]func(int) error{
		"strikes": func(int) error { return nil },
		"strikes late": func(earlier int) error {
			if earlier == 0 {
				return skip("rows are left")
			}
			return nil
		},
		"fails":        func(int) error { return errors.New("too slow") },
		"strikes, too": func(int) error { return nil },
	} {
		c.faults[name] = &staged{name: name, strikes: &turns, does: does}
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	enough := func() bool {
		_, complete := c.completed()
		return complete
	}
	over := make(chan struct{})
	close(over) // it is awaited when there is enough
	for !enough() {
		c.turn(t.Context(), c.next())
	}
	c.run(t.Context(), over, enough)
	counts := map[string]int{}
	for _, name := range turns {
		counts[name]++
	}
	if counts["strikes"] != 1 || counts["strikes, too"] != 1 || counts["strikes late"] != 2 ||
		counts["fails"] != mostTurns {
		t.Errorf("the turns are %q", turns)
	}
	if first := turns[:len(c.names)]; len(slices.Compact(slices.Sorted(slices.Values(first)))) != len(c.names) {
		t.Errorf("one had a second turn before all had one: %q", turns)
	}
	if next := c.next(); next != "fails" {
		t.Errorf("the next round begins with %q, and one has never struck", next)
	}
	if got := c.reason("fails"); got != "too slow" {
		t.Errorf("the reason is %q", got)
	}
}

// A run goes on beyond its duration until every fault has struck, but not for ever.
func TestOvertime(t *testing.T) {
	t.Parallel()
	const duration = 10 * time.Minute
	for _, c := range []struct {
		name      string
		passed    time.Duration
		completed time.Duration // 0: not yet
		enough    bool
		overtime  time.Duration
	}{
		{"in time", 9 * time.Minute, 5 * time.Minute, false, 0},
		{"in time, and over", 11 * time.Minute, 5 * time.Minute, true, 0},
		{"not yet", 11 * time.Minute, 0, false, duration / 2},
		{"late", 13 * time.Minute, 12 * time.Minute, true, 2 * time.Minute},
		{"never", 16 * time.Minute, 0, true, duration / 2},
	} {
		r := &run{lab: &lab{options: Options{Duration: duration}}, conductor: &conductor{}}
		r.began = time.Now().Add(-c.passed)
		if at := r.began.Add(c.completed); c.completed > 0 {
			r.conductor.first.Store(&at)
		}
		if got := r.enough(t.Context()); got != c.enough || r.overtime() != c.overtime {
			t.Errorf("%s: enough is %v, overtime %v", c.name, got, r.overtime())
		}
	}
}
