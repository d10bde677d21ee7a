//go:build unix

package series

import (
	"fmt"
	"strconv"
	"time"
)

// A planned is one run of the series.
type planned struct {
	name string
	kind kind
	args []string // of txwork torture
	need need
}

type kind int

const (
	allFaults kind = iota
	manyRows
	brokenBuilds
)

// A need is what a run has to reach beside breaking nothing.
type need struct{ rows, crashes int }

// crashes of PostgreSQL in the run of very many rows: it lasts for as long as these take, and until the rows are
// written.
const (
	crashes      = 20
	crashPause   = 45 * time.Second
	crashMargin  = 5 // pauses are random
	crashedFault = "postgres-crash"
)

func (r *runner) plan() (runs []planned) {
	o := r.options
	for i := range uint64(o.seeds) {
		seed := strconv.FormatUint(o.first+i, 10)
		runs = append(runs, planned{
			name: "seed-" + seed, kind: allFaults, args: []string{"--seed", seed, "--duration", o.duration.String()},
		})
	}
	if o.broken {
		runs = append(runs, planned{name: "broken", kind: brokenBuilds})
	}
	if o.rows > 0 { // last, and with the machine for itself where runs are not side by side
		runs = append(runs, planned{
			name: fmt.Sprintf("rows-%d", o.rows), kind: manyRows, need: need{o.rows, crashes},
			args: []string{
				"--seed", strconv.FormatUint(o.first, 10), "--rows", strconv.Itoa(o.rows), "--faults", crashedFault,
				"--pause", crashPause.String(), "--duration", ((crashes + crashMargin) * crashPause).String(),
			},
		})
	}
	return runs
}
