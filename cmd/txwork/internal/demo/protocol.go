package demo

import "github.com/google/uuid"

// The parent and a worker exchange lines of JSON over the worker's standard input and output. The first line is a
// setup; after that the parent sends commands and the worker sends events. When its standard input ends, the worker
// knows that the parent is gone.

// A setup is what a worker needs to know. It is not passed in the arguments, which other users can see, because a
// database URL may contain a password.
type setup struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Schema string `json:"schema"`
}

type command struct {
	Do    string `json:"do"`
	Round int    `json:"round,omitempty"`
}

const (
	doHold   = "hold"   // from now on, handlers stop in the middle of their transactions
	doResume = "resume" // held handlers go on
	doStop   = "stop"   // end after the running handlers have finished
)

type event struct {
	What    string      `json:"what"`
	Round   int         `json:"round,omitempty"`   // of the hold that it belongs to
	Message uuid.UUID   `json:"message,omitzero"`  // that the handler has
	Attempt int         `json:"attempt,omitempty"` // at that message
	Claims  []uuid.UUID `json:"claims,omitempty"`  // of the whole process
}

const (
	isReady   = "ready"   // the worker is about to claim
	isArmed   = "armed"   // a hold is in force
	isHolding = "holding" // a handler has stopped
)
