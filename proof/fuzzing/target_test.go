package fuzzing

import (
	"slices"
	"testing"
	"time"
)

func TestEveryTargetIsFound(t *testing.T) {
	t.Chdir("../..")
	targets, err := find(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{
		{"github.com/txwork/txwork/schedule", "FuzzParse"},
		{"github.com/txwork/txwork/workqueue/codec", "FuzzJSON"},
		{"github.com/txwork/txwork/workqueue", "FuzzStorable"},
		{"github.com/txwork/txwork/timers/alarms", "FuzzVerify"},
		{"github.com/txwork/txwork/timers/alarms", "FuzzCreate"},
		{"github.com/txwork/txwork/cmd/txwork", "FuzzMessageOfLine"},
	} {
		if !slices.Contains(targets, want) {
			t.Errorf("%v is not among %v", want, targets)
		}
	}
	if one, err := find(t.Context(), []string{"FuzzStorable"}); err != nil || len(one) != 1 {
		t.Errorf("got %v, %v", one, err)
	}
	if none, err := find(t.Context(), []string{"FuzzNothing"}); err == nil {
		t.Errorf("got %v", none)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	var r result
	r.count([]byte(`fuzz: elapsed: 0s, gathering baseline coverage: 4/4 completed, now fuzzing with 1 workers
fuzz: elapsed: 3s, execs: 4989 (1658/sec), new interesting: 7 (total: 152)
fuzz: elapsed: 6s, execs: 9523 (1511/sec), new interesting: 9 (total: 154)
PASS
`))
	if r.executions != 9523 || r.added != 9 || r.findings() != "0" {
		t.Errorf("got %+v", r)
	}
	r = result{failed: true, output: []byte("    Failing input written to testdata/fuzz/FuzzParse/1\n")}
	if r.findings() != "1" {
		t.Errorf("got %s findings", r.findings())
	}
	if r = (result{failed: true, output: []byte("no such file")}); r.findings() != "did not run" {
		t.Errorf("got %s findings", r.findings())
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	if o, err := parse([]string{"--time", "10m", "--parallel", "4", "--only", "a,b"}); err != nil ||
		o.time != 10*time.Minute || o.parallel != 4 || !slices.Equal(o.only, []string{"a", "b"}) {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"--time", "0"}, {"--parallel", "0"}, {"more"}} {
		if o, err := parse(args); err == nil {
			t.Errorf("%v gave %+v", args, o)
		}
	}
}
