package main

import (
	"os"
	"strings"
	"testing"
)

// Each row of the table of targets in docs/performance.md has a command, and each command has a row.
func TestThePageHasEveryTarget(t *testing.T) {
	page, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range targets {
		if !strings.Contains(string(page), "`go run ./bench target "+name+"`") {
			t.Errorf("docs/performance.md has no `go run ./bench target %s`", name)
		}
	}
	if rows := strings.Count(string(page), "| `go run ./bench target "); rows != len(targets) {
		t.Errorf("docs/performance.md has %d rows with a target, there are %d targets", rows, len(targets))
	}
}

func TestTargetsThatCannotBeRun(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "name a target: busy, cost, ",
		"dance":                     `no target "dance"`,
		"drain --rounds 0":          "--rounds and --jobs must be at least 1",
		"cost --seconds 0":          "--seconds positive",
		"cost --no-such-flag":       "no-such-flag",
		"drain --peers nobody":      `no peer "nobody"`,
		"cost --peers nobody:bench": `no peer "nobody"`,
	} {
		if err := run(t.Context(), append([]string{"target"}, strings.Fields(line)...)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", line, err, want)
		}
	}
}
