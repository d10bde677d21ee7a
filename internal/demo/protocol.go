package demo

import "github.com/google/uuid"

// The parent and a worker talk in JSON, a line each, over the worker's standard input and output. The
// first line is a setup; what follows are commands one way and events the other. The end of its standard
// input tells a worker that the parent is gone.

// A setup is what a worker needs to know. It is not in the arguments because these are public, and a
// database URL may hold a password.
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
	doHold   = "hold"   // handlers stop in the middle of their transaction, from now on
	doResume = "resume" // they go on
	doStop   = "stop"   // end when running handlers have finished
)

type event struct {
	What    string      `json:"what"`
	Round   int         `json:"round,omitempty"`  // of the hold that it belongs to
	Message uuid.UUID   `json:"message,omitzero"` // that the handler has
	Claims  []uuid.UUID `json:"claims,omitempty"` // of the whole process
}

const (
	isReady   = "ready"   // the worker is about to claim
	isArmed   = "armed"   // a hold is in force
	isHolding = "holding" // a handler has stopped
)
