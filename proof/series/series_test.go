//go:build unix

package series

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/proof/torture"
)

func fine(name string) result {
	return result{
		Code: "abc", Machine: "2 CPUs", planned: planned{name: name},
		Report: &torture.Report{
			Seed: 1, Duration: 10 * time.Minute, Rows: 1_234_567, Redeliveries: 4321,
			Faults: map[string]torture.FaultReport{
				crashedFault: {Strikes: 3, Recoveries: []time.Duration{time.Second, 2 * time.Second, 9 * time.Second}},
			},
		},
	}
}

// thorough returns a run in which every fault struck.
func thorough(name string) result {
	r := fine(name)
	for _, fault := range torture.Faults() {
		if fault != crashedFault {
			r.Report.Faults[fault] = torture.FaultReport{Strikes: 1}
		}
	}
	return r
}

func TestPage(t *testing.T) {
	t.Parallel()
	other := fine("seed-2")
	other.Report.Violations = map[string]int{"I3": 2, "I8": 1}
	other.Report.OrderViolations = 1
	other.Report.Skipped = []torture.Skip{{Fault: "clock", Reason: "no gcc"}}
	other.Report.Faults = map[string]torture.FaultReport{crashedFault: {Strikes: 1, Errors: []string{"slow"},
		Recoveries: []time.Duration{4 * time.Second}}}
	other.Report.NotStruck = []torture.Skip{{Fault: "zombie", Reason: "slow"}}
	builds := result{planned: planned{name: "broken", kind: brokenBuilds},
		Builds: []brokenBuild{{Name: "no token", Found: true, Took: 40 * time.Second}}}

	const begin, end = "<!-- torture:begin -->", "<!-- torture:end -->"
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it replaces what it wrote
		if err := writePage(page, []result{fine("seed-1"), other, builds}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + begin, end + "\nafter\n",
		"| seed 1, 10m0s | 1,234,567 | 4,321 | 0 | 0 | 0, 0 | 0 | 0 | 0 | 0 | 0 |",
		"| 0 | 0 | 1 | 0 | 2 |",
		"| `postgres-crash` | 4 | 2.0 s | 9.0 s | 1 |",
		"**SKIPPED** in seed-2: `clock`: no gcc",
		"**NOT STRUCK** in seed-2: `zombie`: slow",
		"| no token | yes | 40 s |",
	} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("%q does not occur exactly once in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old text between the markers is still there")
	}
	if err := os.WriteFile(page, []byte("no markers"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, nil); err == nil {
		t.Error("a page without markers is not an error")
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	few := fine("few")
	few.planned.need = need{rows: 2_000_000, crashes: 20}
	broken := fine("violated")
	broken.Report.Found = []torture.Violation{{Invariant: "I3"}}
	missed := result{planned: planned{name: "broken"}, Builds: []brokenBuild{{Name: "no token"},
		{Name: "fine", Found: true}}}
	if wrong := judge([]result{thorough("seed-1")}); len(wrong) > 0 {
		t.Errorf("a run without violations is judged wrong: %v", wrong)
	}
	idle := thorough("seed-2")
	idle.Report.Faults["zombie"] = torture.FaultReport{Errors: []string{"slow"}}
	if wrong := judge([]result{idle}); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "zombie") {
		t.Errorf("a fault that never struck: %v", wrong)
	}
	if wrong := judge([]result{idle, thorough("seed-3")}); len(wrong) > 0 {
		t.Errorf("a fault that struck in another run: %v", wrong)
	}
	wrong := judge([]result{few, broken, missed, thorough("seed-4")})
	if len(wrong) != 4 || !errors.Is(errors.Join(wrong...), torture.ErrViolated) {
		t.Errorf("found %v", wrong)
	}
}

// A result is valid only for the code and the command that it came from.
func TestResume(t *testing.T) {
	t.Parallel()
	r := &runner{options: options{dir: t.TempDir(), seeds: 2, first: 3, duration: time.Minute, rows: 1000}, code: "abc"}
	plan := r.plan()
	if len(plan) != 3 || plan[0].name != "seed-3" || plan[2].need.crashes != crashes {
		t.Fatalf("the plan is %+v", plan)
	}
	done := result{Code: "abc", Args: plan[0].args, planned: plan[0], Report: fine("").Report}
	if err := done.write(r.options.dir); err != nil {
		t.Fatal(err)
	}
	if !r.has(plan[0]) || r.has(plan[1]) {
		t.Error("only the second run should be missing its result")
	}
	r.code = "def"
	if r.has(plan[0]) {
		t.Error("a result of other code is accepted")
	}
	if read, err := readResults(r.options.dir, plan); err != nil || len(read) != 1 || read[0].Report.Rows != 1_234_567 {
		t.Errorf("read %+v, error %v", read, err)
	}
}

// A program that ends without a report is an error, and its log is kept.
func TestARunWithoutAReport(t *testing.T) {
	t.Parallel()
	r := &runner{options: options{dir: t.TempDir()}, program: "/bin/false", out: io.Discard}
	if err := r.run(context.Background(), planned{name: "seed-1"}); err == nil ||
		!strings.Contains(err.Error(), "seed-1.log") {
		t.Errorf("the error is %v", err)
	}
	if r.has(planned{name: "seed-1"}) {
		t.Error("it has a result")
	}
}

func TestBrokenBuildsAreReadFromTheEvents(t *testing.T) {
	t.Parallel()
	builds, err := readBuilds(strings.NewReader(`{"Action":"run","Test":"TestBrokenBuilds/no_token"}
{"Action":"output","Test":"TestBrokenBuilds/no_token","Output":"    broken_test.go:120: found map[I4:1] after 31s\n"}
{"Action":"pass","Test":"TestBrokenBuilds/no_token","Elapsed":31.5}
{"Action":"fail","Test":"TestBrokenBuilds/other","Elapsed":2}
{"Action":"fail","Test":"TestBrokenBuilds","Elapsed":33}
`))
	if err != nil || len(builds) != 2 {
		t.Fatalf("read %+v, error %v", builds, err)
	}
	if b := builds[0]; b.Name != "no token" || !b.Found || b.Detail != "found map[I4:1] after 31s" ||
		b.Took != 31500*time.Millisecond {
		t.Errorf("the first is %+v", b)
	}
	if builds[1].Found {
		t.Errorf("the second is %+v", builds[1])
	}
}

// A test that was killed after its first build says nothing about the other builds.
func TestATestOfBrokenBuildsThatDied(t *testing.T) {
	t.Parallel()
	died, found, missed := errors.New("signal: killed"), brokenBuild{Found: true}, brokenBuild{}
	for _, c := range []struct {
		builds []brokenBuild
		ran    error
		want   bool
	}{
		{nil, nil, false}, {nil, died, false}, {[]brokenBuild{found}, died, false},
		{[]brokenBuild{found, found}, nil, true}, {[]brokenBuild{found, missed}, died, true},
	} {
		if got := complete(c.builds, c.ran); got != c.want {
			t.Errorf("%+v with error %v is complete: %v", c.builds, c.ran, got)
		}
	}
}
