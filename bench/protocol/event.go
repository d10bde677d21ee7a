package protocol

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// A Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Described Kind = "peer"      // of describe
	Filled    Kind = "filled"    // of fill, single and pace
	Started   Kind = "started"   // of work: the worker begins; of pace: the measurement begins
	Handled   Kind = "handled"   // of work: the handler has run Jobs times
	Progress  Kind = "progress"  // of work by several processes: the handler has run Jobs times so far
	Latencies Kind = "latencies" // of latency
)

// An Event is one line of a peer's output. Its kind decides which fields it has.
type Event struct {
	Kind Kind `json:"event"`

	Description

	Jobs       int       `json:"jobs,omitempty"`
	Seconds    float64   `json:"seconds,omitempty"`     // duration of the calls, without the start of the process
	CPUSeconds float64   `json:"cpu_seconds,omitempty"` // of the process, in pace
	Millis     []float64 `json:"ms,omitempty"`          // from just before the insert to the handler's start, in order
}

// A Description is how a peer describes itself.
type Description struct {
	Name     string            `json:"name,omitempty"`
	Version  string            `json:"version,omitempty"`
	Profiles map[string]string `json:"profiles,omitempty"` // the settings of each profile, in one line
	Retained bool              `json:"retained,omitempty"` // it can keep done jobs
	Deleted  bool              `json:"deleted,omitempty"`  // it can delete them
	// UnfinishedSQL counts the jobs that are not durably done, in the mode of the Config.
	UnfinishedSQL string `json:"unfinished_sql,omitempty"`
}

// Write prints the event on a line of its own.
func (e Event) Write(w io.Writer) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// maxLine bounds the length of a line. It suffices for the latencies of several ten thousand jobs.
const maxLine = 4 << 20

// Read calls handle with every event of r, in order, until r ends or handle returns an error. Empty lines are
// skipped; a line that is not an event is an error, since logs belong on standard error.
func Read(r io.Reader, handle func(Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		e, err := parse(lines.Bytes())
		if err != nil {
			return err
		}
		if err := handle(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

func parse(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("%q is not an event: %w", line, err)
	}
	if e.Kind == "" {
		return e, fmt.Errorf("%q is not an event: it names no kind", line)
	}
	return e, nil
}
