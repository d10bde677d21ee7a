package workqueue

import (
	"fmt"
	"slices"
)

// Status is the state of a row.
type Status int16

const (
	Ready      Status = 0 // may be claimed once it is due
	InProgress Status = 1 // claimed: a worker holds an owner token and a lease
	Done       Status = 2 // acknowledged
	Failed     Status = 3 // the dead letter: kept until an operator decides
)

var statusNames = [...]string{"ready", "in_progress", "done", "failed"}

func (s Status) String() string {
	if s < Ready || s > Failed {
		return fmt.Sprintf("status(%d)", int16(s))
	}
	return statusNames[s]
}

// ParseStatus reads what [Status.String] writes.
func ParseStatus(name string) (Status, error) {
	i := slices.Index(statusNames[:], name)
	if i < 0 {
		return 0, invalid("status", "%q is unknown, want one of %v", name, statusNames)
	}
	return Status(i), nil
}

// A State is a [Status] told apart further. It is what the command line shows and asks for, and what statistics count.
// A row has one state, except that an expired row also counts as in progress.
type State string

// The states of rows.
const (
	StateReady      State = "ready"       // due now
	StateScheduled  State = "scheduled"   // Ready, and due later
	StateWaiting    State = "waiting"     // Ready, and held back: by an earlier row of its key, a limit or a join
	StateInProgress State = "in_progress" // claimed
	StateExpired    State = "expired"     // claimed, and its lease has expired
	StateDone       State = "done"        // acknowledged
	StateFailed     State = "failed"      // a dead letter
	StateCancelled  State = "cancelled"   // Failed by a cancel
)

// States returns all states, in the order in which a row goes through them.
func States() []State {
	return []State{StateReady, StateScheduled, StateWaiting, StateInProgress, StateExpired, StateDone, StateFailed,
		StateCancelled}
}

// ParseState reads the name of a state.
func ParseState(name string) (State, error) {
	if !slices.Contains(States(), State(name)) {
		return "", invalid("state", "%q is unknown, want one of %v", name, States())
	}
	return State(name), nil
}
