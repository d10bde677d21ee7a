package demo

import (
	"errors"
	"fmt"
	"io"
)

// Bounds of [Options].Transfers.
const (
	// DefaultTransfers takes some ten seconds, most of it the time that faults take to be repaired.
	DefaultTransfers = 5000
	// MaxTransfers is a day's work on a small machine.
	MaxTransfers = 10_000_000
)

// Options say what to demonstrate.
type Options struct {
	// Transfers is how many are made up. Default: [DefaultTransfers]. Not together with Input.
	Transfers int

	// Input names a CSV file of transfers to make instead, see [ReadTransfers].
	Input string

	// DatabaseURL is a server to use instead of a private one. The demo has a schema of its own there.
	DatabaseURL string

	// Worker is the program, with its arguments, that calls [RunWorker].
	Worker []string

	// Progress is told what happens: a progress bar on a terminal, lines elsewhere.
	Progress io.Writer
}

// plan is what is to be transferred. It reads and checks the input to its end, so that a mistake in it
// is found before anything is started.
func (o Options) plan() (plan, error) {
	switch {
	case o.Input != "" && o.Transfers != 0:
		return plan{}, errors.New("choose between a number of transfers and an input file")
	case o.Input != "":
		transfers, err := readFile(o.Input)
		return givenPlan(transfers), err
	case o.Transfers == 0:
		o.Transfers = DefaultTransfers
	}
	if o.Transfers < 1 || o.Transfers > MaxTransfers {
		return plan{}, fmt.Errorf("transfers is %d, it must be between 1 and %d", o.Transfers, MaxTransfers)
	}
	return inventedPlan(o.Transfers), nil
}
