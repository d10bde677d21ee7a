// Package examples_test runs the examples as a reader does. An example passes only if its figures reconcile.
package examples_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestExamplesReconcile(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) < 10 {
		t.Fatalf("found %d examples: %v", len(programs), err)
	}
	for _, program := range programs {
		name := filepath.Dir(program)
		if name == "quickstart" || name == "shop" {
			continue // they run until interrupted; cmd/txwork tests the commands of their pages in docs
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if last := lastLine(run(t, name)); !strings.HasPrefix(last, "reconciled: ") {
				t.Errorf("ended with %q, not with what is reconciled", last)
			}
		})
	}
}

// run runs an example with the command of the README, and returns what it printed.
func run(t *testing.T, name string) string {
	command := exec.CommandContext(t.Context(), "go", "run", "./"+name)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	t.Logf("%s%s", &stdout, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
