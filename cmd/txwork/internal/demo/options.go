package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Bounds of [Options].Transfers.
const (
	// DefaultTransfers takes about ten seconds, most of them for the recovery from the faults.
	DefaultTransfers = 5000
	// MaxTransfers is a day's work on a small machine.
	MaxTransfers = 10_000_000
)

// Options say what to demonstrate.
type Options struct {
	// Transfers is how many transfers are generated. Default: [DefaultTransfers]. It cannot be combined with Input.
	Transfers int

	// Input names a CSV file of transfers to use instead, see [ReadTransfers].
	Input string

	// DatabaseURL is a server to use instead of a private one. The demo creates its own schema there.
	DatabaseURL string

	// Worker is the program, with its arguments, that calls [RunWorker].
	Worker []string

	// Audience looks at the tables while the run lasts. Default: nobody.
	Audience Audience

	// Progress receives what happens: a progress bar on a terminal, lines elsewhere.
	Progress io.Writer
}

// An Audience looks at the tables of a run.
type Audience interface {
	// Enter is called when the tables are there. The transfers begin when it returns.
	Enter(ctx context.Context, url, schema string) error
	// Stay is called with the report. The tables are removed when it returns.
	Stay(ctx context.Context, r Report) error
}

// plan returns the transfers to make. It reads and checks the whole input, so that a mistake is found before anything
// is started.
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
