//go:build unix

package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// A conductor makes the faults strike one after another.
type conductor struct {
	lab     *lab
	random  *rand.Rand
	faults  map[string]fault // the faults that can strike
	names   []string
	skips   []Skip
	strikes []Strike

	bag    []string          // names whose turn in this round has not come, or came to nothing
	missed map[string]int    // how often a name's turn came to nothing in this round
	why    map[string]string // the last reason
	struck map[string]int    // how often a fault has struck
	first  atomic.Pointer[time.Time]
}

// A Skip is a fault that was selected but did not strike.
type Skip struct {
	Fault  string `json:"fault"`
	Reason string `json:"reason"`
}

func newConductor(l *lab, names []string, seed uint64) *conductor {
	c := &conductor{lab: l, random: rand.New(rand.NewPCG(seed, 1)), faults: map[string]fault{}, skips: []Skip{},
		why: map[string]string{}, struck: map[string]int{}}
	c.names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range c.names {
		c.faults[name] = catalogue[name]()
	}
	return c
}

// each calls a step of every fault, and drops the faults that cannot strike.
func (c *conductor) each(step func(fault) error) error {
	for _, name := range slices.Clone(c.names) {
		err := step(c.faults[name])
		if s, ok := errors.AsType[skipped](err); ok {
			c.drop(name, s.reason)
		} else if err != nil {
			return fmt.Errorf("fault %s: %w", name, err)
		}
	}
	return nil
}

func (c *conductor) drop(name, reason string) {
	c.lab.say("SKIPPED %s: %s", name, reason)
	c.skips = append(c.skips, Skip{name, reason})
	c.faults[name].close()
	delete(c.faults, name)
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
}

func (c *conductor) configure() error {
	return c.each(func(f fault) error { return f.configure(c.lab) })
}

func (c *conductor) prepare(ctx context.Context) error {
	return c.each(func(f fault) error { return f.prepare(ctx, c.lab) })
}

// run makes faults strike until the run's time is over. A strike that has begun is completed, unless the whole run is
// interrupted. A strike that waits until all rows have ended needs no pause before it.
func (c *conductor) run(ctx context.Context, over <-chan struct{}, enough func() bool) {
	if len(c.names) == 0 {
		c.complete()
	}
	for len(c.names) > 0 && !enough() {
		name := c.next()
		quiet := isQuiet(c.faults[name])
		c.lab.pausing.Store(quiet)
		if !quiet {
			select {
			case <-over:
				return
			case <-time.After(c.pause()):
			}
		}
		c.turn(ctx, name)
	}
	c.lab.pausing.Store(false)
	<-over
}

// turn lets a fault strike. If that comes to nothing, its turn comes again at the end of the round, but not for ever.
func (c *conductor) turn(ctx context.Context, name string) {
	c.bag = c.bag[1:]
	if c.strike(ctx, name) {
		c.struck[name]++
	} else if c.missed[name]++; c.missed[name] < mostTurns {
		c.bag = append(c.bag, name)
	}
	if len(c.bag) == 0 {
		c.complete()
	}
}

// mostTurns is how many turns a fault has in each round if they come to nothing.
const mostTurns = 3

// complete ends a round.
func (c *conductor) complete() {
	now := time.Now()
	c.first.CompareAndSwap(nil, &now)
}

// completed returns when every fault had struck, or had used up its turns, for the first time.
func (c *conductor) completed() (at time.Time, ok bool) {
	if first := c.first.Load(); first != nil {
		return *first, true
	}
	return at, false
}

// pause returns a random pause between a quarter and seven quarters of the average.
func (c *conductor) pause() time.Duration {
	average := c.lab.options.Pause
	return average/4 + time.Duration(c.random.Int64N(int64(average*3/2)+1))
}

// next is the fault whose turn it is. In each round, every fault has its turn before any has another one.
func (c *conductor) next() string {
	if len(c.bag) == 0 {
		c.bag, c.missed = c.deal(), map[string]int{}
	}
	return c.bag[0]
}

// deal returns all faults in a random order, except that those that have never struck come first. Quiet ones come in
// small groups: each group waits only once until the rows of the producers have ended.
func (c *conductor) deal() []string {
	names := slices.Clone(c.names)
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var groups [][]string
	var quiet []string
	for _, name := range names {
		if isQuiet(c.faults[name]) {
			quiet = append(quiet, name)
		} else {
			groups = append(groups, []string{name})
		}
	}
	groups = slices.AppendSeq(groups, slices.Chunk(quiet, quietGroup))
	c.random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	order := slices.Concat(groups...)
	slices.SortStableFunc(order, func(a, b string) int { return min(c.struck[a], 1) - min(c.struck[b], 1) })
	return order
}

// quietGroup is how many quiet faults make a group.
const quietGroup = 4

// strikeLimit is more than the longest strike takes on a busy machine.
const strikeLimit = 4 * time.Minute

// strike tells whether the fault has struck.
func (c *conductor) strike(run context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(run, strikeLimit)
	defer cancel()
	s := Strike{Fault: name, At: time.Now()}
	c.lab.hit = s.At
	detail, err := c.faults[name].strike(ctx, c.lab, c.random)
	if harm := harmOf(c.faults[name]); harm != harmsNobody { // even if it failed, it may already have done harm
		c.lab.disturb(s.At, harm == harmsAnnouncers)
	}
	if run.Err() != nil {
		return false // the error comes from the interruption
	}
	if none, ok := errors.AsType[skipped](err); ok {
		c.why[name] = none.reason
		c.lab.say("%s does not strike this time: %s", name, none.reason)
		return false
	}
	s.Took, s.Detail = time.Since(s.At), detail
	s.At = c.lab.hit
	if err != nil {
		s.Error = err.Error()
		c.why[name] = s.Error
	}
	c.strikes = append(c.strikes, s)
	c.lab.say("%s %s %s", name, detail, s.Error)
	return err == nil
}

// reason says why a fault has not struck.
func (c *conductor) reason(name string) string { return cmp.Or(c.why[name], "its turn did not come") }

func (c *conductor) close() {
	for _, f := range c.faults {
		f.close()
	}
}
