package logs

import (
	"bytes"
	"strings"
	"testing"
)

// Every store that is there delivers all of what is written to all of its consumers, and is in the table.
func TestTheTable(t *testing.T) {
	var out, progress bytes.Buffer
	args := []string{"--messages", "1000", "--seconds", "0.3", "--rounds", "1", "--consumers", "1"}
	if err := Run(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for _, want := range []string{"| rows | 1 |", "| log | 1 |", "97 of them idle"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for want, args := range map[string][]string{"no store": {"--stores", "kafka"}, "--messages": {"--messages", "1"},
		"--consumers": {"--consumers", "0"}} {
		if err := Run(t.Context(), args, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
