package mutation

import (
	"io"
	"strings"
	"testing"
)

func TestFirstFailureIsTheKiller(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]failure{
		"ok": {},
		"\x16=== RUN   TestA\n\x16=== RUN   TestA/b\n\x16--- FAIL: TestA/b (0.00s)\n\x16--- FAIL: TestA (0.00s)\n": {test: "TestA/b"},
		"    --- FAIL: TestA/b (0.00s)\n":       {test: "TestA/b"},
		"\x16=== RUN   TestA\npanic: nil map\n": {test: "TestA (panic: nil map)"},
		"\x16=== RUN   TestA\n\x16=== RUN   TestB\npanic: test timed out after 5m0s\n\trunning tests:\n\t\tTestA (5m0s)\n\t\tTestB (1s)\n": {test: "TestA", timedOut: true},
		"\x16=== RUN   TestA\npanic: test timed out after 5m0s\n":                                                                          {test: "TestA", timedOut: true},
		"a log says --- FAIL: nothing\n": {},
	} {
		stopped := false
		got := scan(strings.NewReader(output), func() { stopped = true })
		if got != want || stopped != (want.test != "") {
			t.Errorf("%q: got %v, stopped %v, want %v", output, got, stopped, want)
		}
	}
}

// A test that hangs after the first failure prints no further line that could wake the reader.
func TestTheFirstFailureEndsARunThatSaysNothingMore(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	go func() { _, _ = io.WriteString(write, "--- FAIL: TestA (0.00s)\n") }()
	if got := scan(read, func() { write.Close() }); got.test != "TestA" {
		t.Errorf("got %v", got)
	}
}

func TestAKillerIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestA":                    "^TestA$",
		"TestA/b+c/d":              `^TestA$/^b\+c$/^d$`,
		"TestA/b (panic: nil map)": "^TestA$/^b$",
		" (panic: nil map)":        "",
		"the run: exit status 2":   "",
	} {
		if got := alone(test); got != want {
			t.Errorf("%q: got %q, want %q", test, got, want)
		}
	}
}
