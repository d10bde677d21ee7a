package lab

import (
	"slices"

	"github.com/txwork/txwork/bench/results"
)

// plan returns the cells in the order in which they are measured. The rounds of a workload follow each other, and each
// goes through the entrants in the opposite order of the previous one (A B, B A, …), so that drift on the machine
// favours no entrant.
func plan(workloads []results.Workload, entrants []entrant, rounds int) []step {
	var steps []step
	for _, w := range workloads {
		turns := turns(w, entrants)
		for round := 1; round <= rounds; round++ {
			for _, s := range turns {
				s.Round = round
				steps = append(steps, s)
			}
			slices.Reverse(turns)
		}
	}
	return steps
}

// turns returns the steps of a round. Steps with the same number of processes follow each other.
func turns(w results.Workload, entrants []entrant) (steps []step) {
	counts := []int{0}
	if w == results.Processes {
		counts = results.ProcessCounts
	}
	for _, processes := range counts {
		for _, e := range entrants {
			if _, can := e.mode(w); can {
				steps = append(steps, step{results.Key{Workload: w, Entrant: e.Entrant, Processes: processes}, e})
			}
		}
	}
	return steps
}

// A step is a cell to be measured.
type step struct {
	results.Key
	entrant entrant
}

// without leaves out cells that have been measured. Failed cells are measured again.
func without(steps []step, done []results.Cell) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		return slices.ContainsFunc(done, func(c results.Cell) bool { return c.Key == s.Key && c.Error == "" })
	})
}
