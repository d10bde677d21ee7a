package mutation

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A result says what became of a mutant. Killer is empty if it survived.
type result struct {
	Mutant string `json:"mutant"`
	// Print is the mutant's print. A result with another print belongs to an earlier mutant of the same name.
	Print string `json:"print"`
	// Dir and Killer are the package and its test that failed.
	Dir    string `json:"dir,omitempty"`
	Killer string `json:"killer,omitempty"`
	// TimedOut says that the killer did not end within its time limit.
	TimedOut bool `json:"timed_out,omitempty"`
	// Once says that the killer passed when it was repeated alone: it kills the mutant only by chance, or failed for
	// another reason.
	Once    bool    `json:"once,omitempty"`
	Seconds float64 `json:"seconds"`
}

func (r result) String() string {
	killer := "SURVIVED"
	if r.Killer != "" {
		killer = r.Dir + " " + r.Killer
	}
	if r.TimedOut {
		killer += ", which did not end in time"
	}
	if r.Once {
		killer += ", which passes when it is repeated alone"
	}
	return fmt.Sprintf("%-90s %s (%.0f s)", r.Mutant, killer, r.Seconds)
}

// A tally counts the results of a run.
type tally struct{ mutants, survived, timedOut, once int }

func count(results []result) (t tally) {
	for _, r := range results {
		t.mutants++
		switch {
		case r.Killer == "":
			t.survived++
		case r.TimedOut:
			t.timedOut++
		case r.Once:
			t.once++
		}
	}
	return t
}

// report prints which test killed each mutant, then the survivors again, and the totals.
func report(out io.Writer, results []result, left int, took time.Duration, asJSON bool) error {
	if asJSON {
		return encodeAll(out, results)
	}
	for _, r := range results {
		fmt.Fprintln(out, r)
	}
	t := count(results)
	if t.survived > 0 {
		fmt.Fprintf(out, "\nNo test notices:\n")
	}
	for _, r := range results {
		if r.Killer == "" {
			fmt.Fprintf(out, "  %s\n", r.Mutant)
		}
	}
	_, err := fmt.Fprintf(out, "\n%d mutants, %d killed (%d by a test that did not end, %d by one that passes when "+
		"it is repeated alone), %d survived; %d equivalent ones left out; %v\n",
		t.mutants, t.mutants-t.survived, t.timedOut, t.once, t.survived, left, took.Round(time.Second))
	return err
}

func encodeAll(out io.Writer, results []result) error {
	encoder := json.NewEncoder(out)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
