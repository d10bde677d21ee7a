//go:build unix

package torture

import (
	"cmp"
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
	// Seed determines every choice: what producers write, which fault strikes when, and whom. Timing still depends on
	// the machine, so two runs with the same seed are similar but not identical.
	Seed uint64

	// Duration is how long faults strike. Setup, draining and checking are not included. If a fault has not struck by
	// then, the run goes on until it has, for half of the Duration at most. Default: a minute.
	Duration time.Duration

	// Faults are the names of the faults that strike, see [Faults]. Default: all.
	Faults []string

	// Rows stops the producers once so many rows have been committed, and makes the run last until then. Default:
	// producers write for as long as faults strike.
	Rows int

	// Pause is the average pause between two strikes. It is random, so that at the next strike some rows have recovered
	// and others have not. Default: [DefaultPause]. A run of very many rows needs more.
	Pause time.Duration

	// Poll is how often workers poll for rows that were not announced. Default: [DefaultPoll], which hides most lost
	// wakes. A longer one reveals them.
	Poll time.Duration

	// Workers is the number of worker processes. Default: 3.
	Workers int

	// SQLWorkers is the number of worker processes beside those that use the SQL functions only. Default: 2.
	SQLWorkers int

	// GoOnly leaves out those, and lets no producer write by the SQL functions. Otherwise every second one does.
	GoOnly bool

	// Program is the command line that runs [RunMember].
	Program []string

	// Install allows the run to install what faults need, with apt-get, as root.
	Install bool

	// OldRevision is the git revision whose code serves the tables beside the current code in the fault
	// rolling-upgrade. Default: the newest tag or, if there is none, the first revision with the current migrations.
	OldRevision string

	// DatabaseURL names a server to use. Default: a private one. Faults that stop a server or change its settings need
	// a private one.
	DatabaseURL string

	// Progress receives what happens, one line at a time. Default: nothing is reported.
	Progress io.Writer
}

// defaultWorkers allows for one worker to be stopped, one to be killed and one to continue.
const defaultWorkers = 3

// defaultSQLWorkers are so many that one may be replaced by a changed one, beside another.
const defaultSQLWorkers = 2

// DefaultPause is so short that several faults strike within one recovery.
const DefaultPause = 800 * time.Millisecond

// DefaultPoll is short, so that many recoveries fit into a run.
const DefaultPoll = 500 * time.Millisecond

// Bounds of [Options.Poll].
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 30 * time.Second
)

// ErrViolated says that the run broke an invariant, or did not go as it should.
var ErrViolated = errors.New("txwork did not keep its word")

func (o Options) withDefaults() (Options, error) {
	o.Duration = cmp.Or(o.Duration, time.Minute)
	o.Pause = cmp.Or(o.Pause, DefaultPause)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.SQLWorkers = cmp.Or(o.SQLWorkers, defaultSQLWorkers)
	if o.GoOnly {
		o.SQLWorkers = 0
	}
	o.Progress = cmp.Or(o.Progress, io.Discard)
	if len(o.Faults) == 0 {
		o.Faults = Faults()
	}
	if len(o.Program) == 0 {
		return o, errors.New("torture: Options.Program is not set")
	}
	return o, o.Validate()
}

// Validate returns the first mistake in the Options. It does not check Program.
func (o Options) Validate() error {
	switch {
	case o.Duration != 0 && o.Duration < time.Second:
		return fmt.Errorf("torture: a duration of %v is too short for any fault: give it a second or more", o.Duration)
	case o.Rows < 0:
		return fmt.Errorf("torture: the number of rows cannot be %d", o.Rows)
	case o.Pause < 0:
		return fmt.Errorf("torture: the pause cannot be %v", o.Pause)
	case o.Poll != 0 && (o.Poll < minPoll || o.Poll > maxPoll):
		return fmt.Errorf("torture: the poll interval cannot be %v: it must be between %v and %v", o.Poll, minPoll, maxPoll)
	case o.Workers < 0 || o.SQLWorkers < 0:
		return fmt.Errorf("torture: the number of workers cannot be %d", min(o.Workers, o.SQLWorkers))
	}
	for _, name := range o.Faults {
		if _, known := catalogue[name]; !known {
			return fmt.Errorf("torture: there is no fault %q, there are: %s", name, strings.Join(Faults(), ", "))
		}
	}
	return nil
}

// Faults returns the names of all faults.
func Faults() []string { return slices.Sorted(maps.Keys(catalogue)) }
