package fuzzing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A target is one fuzz function.
type target struct{ pack, name string }

func (t target) String() string { return t.pack + " " + t.name }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// find reads the test files of the module's packages.
func find(ctx context.Context, only []string) (targets []target, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}} {{.Dir}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		pack, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		names, err := declared(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if t := (target{pack, name}); t.chosen(only) {
				targets = append(targets, t)
			}
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("no fuzz target has %s in its name", strings.Join(only, " or "))
	}
	return targets, nil
}

func declared(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

func (t target) chosen(words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool {
		return strings.Contains(t.String(), word)
	})
}

// A result is what a target came to. Executions include those of the corpus.
type result struct {
	target
	executions, added int
	failed            bool
	output            []byte
	took              time.Duration
}

// run fuzzes the target. To make an input smaller is bounded: where a database answers, the coverage differs from run
// to run, and it would take a minute.
func (t target) run(ctx context.Context, limit time.Duration) result {
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-parallel=1",
		"-fuzztime="+limit.String(), "-fuzzminimizetime=100x", "-timeout=0", t.pack)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the test process, too, is told by go test
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.CombinedOutput()
	r := result{target: t, failed: err != nil, output: output, took: time.Since(start)}
	r.count(output)
	return r
}

var status = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+) `)

// count reads the last line of progress.
func (r *result) count(output []byte) {
	lines := status.FindAllSubmatch(output, -1)
	if len(lines) == 0 {
		return
	}
	last := lines[len(lines)-1]
	r.executions, _ = strconv.Atoi(string(last[1]))
	r.added, _ = strconv.Atoi(string(last[2]))
}

// findings is 0, or what is to be seen in the output above: fuzzing of a target ends with its first finding.
func (r result) findings() string {
	switch {
	case !r.failed:
		return "0"
	case bytes.Contains(r.output, []byte("Failing input written to")):
		return "1"
	}
	return "did not run"
}

func report(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ntarget\texecutions\tnew inputs\tfindings\ttime")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%v\n", r.target, r.executions, r.added, r.findings(),
			r.took.Round(time.Second))
	}
	return table.Flush()
}
