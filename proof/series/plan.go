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
	args []string // arguments of the torture command
	need need
}

type kind int

const (
	allFaults kind = iota
	manyRows
	brokenBuilds
)

// A need is what a run has to reach besides breaking no invariant.
type need struct{ rows, crashes int }

// The run of very many rows has this number of crashes of PostgreSQL. It lasts until they have happened and the rows
// are written.
const (
	crashes      = 20
	crashPause   = 45 * time.Second
	crashMargin  = 5 // because pauses are random
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
	if o.rows > 0 { // last, so that it has the machine to itself unless runs are parallel
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
