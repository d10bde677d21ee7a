//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A conductor makes the faults strike one after another.
type conductor struct {
	lab     *lab
	random  *rand.Rand
	faults  map[string]fault // the faults that can strike
	names   []string
	bag     []string // names that have not struck yet in this round
	skips   []Skip
	strikes []Strike
}

// A Skip is a fault that was selected but could not strike.
type Skip struct {
	Fault  string `json:"fault"`
	Reason string `json:"reason"`
}

func newConductor(l *lab, names []string, seed uint64) *conductor {
	c := &conductor{lab: l, random: rand.New(rand.NewPCG(seed, 1)), faults: map[string]fault{}, skips: []Skip{}}
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
// interrupted.
func (c *conductor) run(ctx context.Context, over <-chan struct{}) {
	for len(c.names) > 0 {
		select {
		case <-over:
			return
		case <-time.After(c.pause()):
		}
		c.strike(ctx, c.next())
	}
	<-over
}

// pause returns a random pause between a quarter and seven quarters of the average.
func (c *conductor) pause() time.Duration {
	average := c.lab.options.Pause
	return average/4 + time.Duration(c.random.Int64N(int64(average*3/2)+1))
}

// next draws a fault without replacement, so that each one has its turn.
func (c *conductor) next() string {
	if len(c.bag) == 0 {
		c.bag = slices.Clone(c.names)
		c.random.Shuffle(len(c.bag), func(i, j int) { c.bag[i], c.bag[j] = c.bag[j], c.bag[i] })
	}
	name := c.bag[0]
	c.bag = c.bag[1:]
	return name
}

// strikeLimit is more than the longest strike takes on a busy machine.
const strikeLimit = 4 * time.Minute

func (c *conductor) strike(run context.Context, name string) {
	ctx, cancel := context.WithTimeout(run, strikeLimit)
	defer cancel()
	s := Strike{Fault: name, At: time.Now()}
	c.lab.hit = s.At
	detail, err := c.faults[name].strike(ctx, c.lab, c.random)
	if harm := harmOf(c.faults[name]); harm != harmsNobody { // even if it failed, it may already have done harm
		c.lab.disturb(s.At, harm == harmsAnnouncers)
	}
	if run.Err() != nil {
		return // the error comes from the interruption
	}
	if none, ok := errors.AsType[skipped](err); ok {
		c.lab.say("%s does not strike this time: %s", name, none.reason)
		return
	}
	s.Took, s.Detail = time.Since(s.At), detail
	s.At = c.lab.hit
	if err != nil {
		s.Error = err.Error()
	}
	c.strikes = append(c.strikes, s)
	c.lab.say("%s %s %s", name, detail, s.Error)
}

func (c *conductor) close() {
	for _, f := range c.faults {
		f.close()
	}
}
