package versions

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report prints the table, and below it what failed and why something was skipped.
func report(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nenvironment\tpackages\tpassed\tfailed\tskipped\ttime\tresult")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%v\t%s\n",
			r.name, r.packages, r.passed, r.failed, r.skipped, r.took.Round(time.Second), r.verdict())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.why != "" {
			fmt.Fprintf(out, "%s %s: %s\n", r.name, r.verdict(), r.why)
		}
		for _, f := range r.failures {
			fmt.Fprintf(out, "%s FAIL: %s\n", r.name, f)
		}
	}
	return nil
}

// complaints is a package's output without what passed.
func complaints(output []byte) []byte {
	var kept [][]byte
	for line := range bytes.Lines(output) {
		trimmed := bytes.TrimSpace(line)
		if bytes.HasPrefix(trimmed, []byte("=== ")) || bytes.HasPrefix(trimmed, []byte("--- PASS")) {
			continue
		}
		kept = append(kept, line)
	}
	return bytes.Join(kept, nil)
}
