package lab

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/txwork/txwork/bench/results"
)

// Progress prints how far a run is.
type Progress struct{ Out io.Writer }

func (p Progress) skipped(name string, err error) {
	fmt.Fprintf(p.Out, "SKIPPED: %s cannot be run here: %v\n", name, err)
}

func (p Progress) begins(k results.Key, n, of int, left time.Duration) {
	about := ""
	if left > 0 {
		about = fmt.Sprintf(" (about %v left)", left.Round(time.Second))
	}
	fmt.Fprintf(p.Out, "%d/%d%s: %s … ", n, of, about, k)
}

func (p Progress) ended(c results.Cell) {
	switch {
	case c.Error != "":
		fmt.Fprintf(p.Out, "FAILED\n  %s\n", strings.ReplaceAll(strings.TrimSpace(c.Error), "\n", "\n  "))
	case c.Workload == results.Latency:
		fmt.Fprintf(p.Out, "p50 %.2f ms, p99 %.2f ms\n", c.P50, c.P99)
	default:
		fmt.Fprintf(p.Out, "%.0f jobs/s\n", c.PerSecond)
	}
}

// An estimate estimates how long the rest of a run takes, from the times of cells of the same kind.
type estimate struct {
	took map[kind]total
	all  total
}

type kind struct {
	workload  results.Workload
	processes int
	entrant   results.Entrant
}

func kindOf(k results.Key) kind { return kind{k.Workload, k.Processes, k.Entrant} }

type total struct {
	seconds float64
	cells   int
}

func (t total) mean() float64 { return t.seconds / float64(t.cells) }

func newEstimate(done []results.Cell) *estimate {
	e := &estimate{took: map[kind]total{}}
	for _, c := range done {
		e.add(c)
	}
	return e
}

func (e *estimate) add(c results.Cell) {
	k := kindOf(c.Key)
	t := e.took[k]
	e.took[k] = total{t.seconds + c.Took, t.cells + 1}
	e.all = total{e.all.seconds + c.Took, e.all.cells + 1}
}

// left returns the estimated time for the steps, and 0 as long as nothing is known.
func (e *estimate) left(steps []step) time.Duration {
	if e.all.cells == 0 {
		return 0
	}
	var seconds float64
	for _, s := range steps {
		if t, known := e.took[kindOf(s.Key)]; known {
			seconds += t.mean()
		} else {
			seconds += e.all.mean()
		}
	}
	return time.Duration(seconds * float64(time.Second))
}
