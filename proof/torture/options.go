//go:build unix

package torture

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options of a run. Program has to be set.
type Options struct {
	// Seed is where every choice comes from: what producers write, which fault strikes when and whom. The
	// machine's timing stays its own, so two runs of a seed are alike and not the same.
	Seed uint64

	// Duration is how long faults strike. Setting up, draining and checking come on top. Default: a minute.
	Duration time.Duration

	// Faults are the names of those that strike, see [Faults]. Default: all.
	Faults []string

	// Rows ends the producing once so many rows have been committed, and makes the run last until they have. Default:
	// producers write for as long as faults strike.
	Rows int

	// Pause is how long there is between two strikes, on average: random, so that some rows have recovered and others
	// have not. Default: [DefaultPause]. A run of very many rows wants more.
	Pause time.Duration

	// Poll is how often workers look for rows of which nobody has told them. Default: [DefaultPoll], in which hardly
	// any wake that is lost is noticed. A long one shows them.
	Poll time.Duration

	// Workers is the number of worker processes. Default: 3.
	Workers int

	// Program is the command line that runs [RunMember].
	Program []string

	// Install lets the run install what faults need, with apt-get, as root.
	Install bool

	// OldRevision is the git revision whose code serves the tables beside today's in the fault rolling-upgrade.
	// Default: the newest tag, or where there is none the first revision that has today's migrations.
	OldRevision string

	// DatabaseURL names a server to use. Default: a private one. Faults that stop a server or change its settings need
	// a private one.
	DatabaseURL string

	// Progress is told what happens, one line at a time. Default: nobody.
	Progress io.Writer
}

// defaultWorkers are enough for one to be stopped, one to be killed and one to go on.
const defaultWorkers = 3

// DefaultPause has several faults strike within the time that one takes to recover from.
const DefaultPause = 800 * time.Millisecond

// DefaultPoll is short, so that many recoveries fit into a run.
const DefaultPoll = 500 * time.Millisecond

// Bounds of [Options.Poll].
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 30 * time.Second
)

// ErrViolated says that the run broke an invariant, or did not go as it has to.
var ErrViolated = errors.New("txwork did not keep its word")

func (o Options) withDefaults() (Options, error) {
	if o.Duration == 0 {
		o.Duration = time.Minute
	}
	if o.Pause == 0 {
		o.Pause = DefaultPause
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if len(o.Faults) == 0 {
		o.Faults = Faults()
	}
	if len(o.Program) == 0 {
		return o, errors.New("torture: Options.Program is not set")
	}
	return o, o.Validate()
}

// Validate reports the first thing that is wrong with the Options, but for Program.
func (o Options) Validate() error {
	switch {
	case o.Duration != 0 && o.Duration < time.Second:
		return fmt.Errorf("torture: a duration of %v is too short for any fault: give it a second or more", o.Duration)
	case o.Rows < 0:
		return fmt.Errorf("torture: %d rows cannot be", o.Rows)
	case o.Pause < 0:
		return fmt.Errorf("torture: a pause of %v cannot be", o.Pause)
	case o.Poll != 0 && (o.Poll < minPoll || o.Poll > maxPoll):
		return fmt.Errorf("torture: a poll of %v cannot be: it is between %v and %v", o.Poll, minPoll, maxPoll)
	case o.Workers < 0:
		return fmt.Errorf("torture: %d workers cannot be", o.Workers)
	}
	for _, name := range o.Faults {
		if _, known := catalogue[name]; !known {
			return fmt.Errorf("torture: there is no fault %q, there are: %s", name, strings.Join(Faults(), ", "))
		}
	}
	return nil
}

// Faults are the names of all faults.
func Faults() []string { return slices.Sorted(maps.Keys(catalogue)) }
