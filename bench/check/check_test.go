//go:build unix

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// A fakeRepo is a repository whose peer says what a test wants.
type fakeRepo struct {
	*testing.T
	dir string
}

func newFakeRepo(t *testing.T) *fakeRepo {
	t.Helper()
	f := &fakeRepo{t, t.TempDir()}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GOWORK", "off")
	f.write("bench/go.mod", "module example.com/fake\n\ngo 1.26\n")
	f.git("init", "--quiet", "--initial-branch", "main")
	return f
}

func (f *fakeRepo) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	f.ok(os.MkdirAll(filepath.Dir(path), 0o755))
	f.ok(os.WriteFile(path, []byte(text), 0o644))
}

func (f *fakeRepo) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fakeRepo) git(args ...string) string {
	f.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// peer makes the peer of the repository, whose phases do what body says; committed, or left in the working tree. There
// are a hundred jobs when the database is first asked, and none later.
func (f *fakeRepo) peer(body string, commit bool) {
	f.Helper()
	f.write("bench/peers/txwork/main.go", `package main

import ("fmt"; "io"; "os"; "os/signal"; "syscall")

var _, _ = signal.Notify, syscall.SIGTERM

func main() {
	asked, filled, ms := 100, 1.0, "[9,1,2]"
	phase := os.Args[1]
	`+body+`
	switch phase {
	case "describe":
		fmt.Printf(`+"`"+`{"event":"peer","name":"fake","profiles":{"defaults":"-"},"retained":true,"deleted":true,`+
		`"unfinished_sql":"SELECT CASE WHEN coalesce(current_setting('fake.asked', true), '') = '' `+
		`THEN length(set_config('fake.asked', repeat('x', %d), false)) ELSE 0 END"}`+"`"+`, asked)
	case "fill":
		fmt.Printf(`+"`"+`{"event":"filled","jobs":100,"seconds":%g}`+"`"+`, filled)
	case "work":
		fmt.Println(`+"`"+`{"event":"started"}`+"`"+`)
		fmt.Println(`+"`"+`{"event":"handled","jobs":100}`+"`"+`)
		io.Copy(io.Discard, os.Stdin)
	case "latency":
		fmt.Printf(`+"`"+`{"event":"latencies","ms":%s}`+"`"+`, ms)
	}
}
`)
	if commit {
		f.git("add", "-A")
		f.git("commit", "--quiet", "-m", "a commit")
	}
}

// Bodies of the peer.
const (
	fast   = `filled = 0.5`
	slow   = `if phase == "latency" { fmt.Fprintln(os.Stderr, "no latency here"); os.Exit(1) }`
	lossy  = `asked = 93`
	broken = `fmt.Fprintln(os.Stderr, "no server"); os.Exit(1)`
	// slowEnd ends when it is stopped, and leaves a file behind
	slowEnd = `if phase == "fill" {
		c := make(chan os.Signal, 1); signal.Notify(c, syscall.SIGTERM)
		os.WriteFile(os.Getenv("FAKE_STARTED"), nil, 0o644)
		<-c
		os.WriteFile(os.Getenv("FAKE_STOPPED"), nil, 0o644); os.Exit(1)
	}`
)

func (f *fakeRepo) check(ctx context.Context, args ...string) (stdout string, err error) {
	f.Helper()
	var out, said bytes.Buffer
	err = Run(ctx, f.dir, args, &out, &said)
	f.tidy()
	f.Log(said.String())
	return out.String(), err
}

// tidy fails if any file or worktree is left behind.
func (f *fakeRepo) tidy() {
	f.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "txwork-*"))
	f.ok(err)
	if worktrees := f.git("worktree", "list"); len(left) > 0 || strings.Count(worktrees, "\n") > 0 {
		f.Errorf("left behind: %v, worktrees %s", left, worktrees)
	}
}

func TestCheck(t *testing.T) {
	f := newFakeRepo(t)
	f.peer(slow, true)
	base := f.git("rev-parse", "--short", "HEAD")
	f.peer(fast, false) // the working tree is measured as it is
	stdout, err := f.check(t.Context(), "--base", "HEAD", "--json", "--short", "--workloads", "enqueue,latency")
	if err != nil {
		t.Fatal(err)
	}
	var got report
	f.ok(json.Unmarshal([]byte(stdout), &got))
	if !strings.HasPrefix(got.Base, base) {
		t.Errorf("the base is %q, want %s", got.Base, base)
	}
	if len(got.LeftOut) != 2 || !strings.Contains(got.LeftOut[0], "latency, round 1, base:defaults: ") {
		t.Errorf("left out is %q, want that the base has no latencies", got.LeftOut)
	}
	rows := map[string]row{}
	for _, r := range got.Rows {
		rows[string(r.Workload)+" "+r.Metric] = r
	}
	if r := rows["enqueue jobs_per_second"]; r.Ratio == nil || *r.Ratio != 2 || r.Apart ||
		*r.Base != (measure.Spread{Median: 100, Min: 100, Max: 100, Runs: 2}) {
		t.Errorf("the row is %+v, want 100 against 200 jobs/s, two runs each, which are too few", r)
	}
	if r := rows["latency p50_ms"]; r.Base != nil || r.Tree == nil || r.Tree.Median != 1 || r.Ratio != nil {
		t.Errorf("the row is %+v, want the working tree's alone, without the first sample", r)
	}
}

func TestWhatFails(t *testing.T) {
	for name, test := range map[string]struct {
		base, tree string
		says       string // by the error; "": there is none
	}{
		"the tree loses jobs":      {fast, lossy, "enqueue, round 1, working-tree:defaults: 93 jobs are there"},
		"the base loses jobs":      {lossy, fast, ""},
		"the tree does not run":    {fast, broken, "no server"},
		"the tree cannot be built": {fast, "no Go", "working-tree: "},
		"the base cannot be built": {"no Go", fast, "base: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRepo(t)
			f.peer(test.base, true)
			f.peer(test.tree, true)
			_, err := f.check(t.Context(), "--short", "--workloads", "enqueue")
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q", err, test.says)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	f := newFakeRepo(t)
	started, stopped := filepath.Join(t.TempDir(), "started"), filepath.Join(t.TempDir(), "stopped")
	t.Setenv("FAKE_STARTED", started)
	t.Setenv("FAKE_STOPPED", stopped)
	f.peer(slowEnd, true)
	f.peer(fast, true)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		for _, err := os.Stat(started); err != nil && ctx.Err() == nil; _, err = os.Stat(started) {
			time.Sleep(5 * time.Millisecond)
		}
		interrupt()
	}()
	stdout, err := f.check(ctx, "--short")
	if !errors.Is(err, context.Canceled) || !strings.Contains(stdout, "workload") {
		t.Errorf("it prints\n%s\nwith the error %v", stdout, err)
	}
	if _, err := os.Stat(stopped); err != nil {
		t.Errorf("the peer was not allowed to end: %v", err)
	}
}

func TestBase(t *testing.T) {
	f := newFakeRepo(t)
	f.peer(slow, true)
	first := f.git("rev-parse", "HEAD")
	if _, err := (repository{f.dir}).base(t.Context(), ""); err == nil ||
		!strings.Contains(err.Error(), "name a commit by BASE") {
		t.Errorf("of the first commit the error is %v", err)
	}
	f.peer(fast, true)
	second := f.git("rev-parse", "HEAD")
	want := func(given, commit string) {
		t.Helper()
		if got, err := (repository{f.dir}).base(t.Context(), given); err != nil || got != commit {
			t.Errorf("the base is %s, %v, want %s", got, err, commit)
		}
	}
	want("", first)
	f.git("switch", "--quiet", "-c", "branch")
	f.peer(slow, true)
	f.peer(fast, true)
	want("", second)
	want("HEAD~3", first)
	f.git("branch", "-D", "main")
	want("", f.git("rev-parse", "HEAD~1"))
	if _, err := (repository{f.dir}).base(t.Context(), "nonsense"); err == nil {
		t.Error("a commit that does not exist is accepted")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"more"}, {"--rounds", "-1"}, {"--workloads", "dance"},
		{"--jobs", "-1"}} {
		var stdout, stderr bytes.Buffer
		if err := Run(t.Context(), ".", args, &stdout, &stderr); err == nil || stdout.Len() > 0 {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestTheTable(t *testing.T) {
	var cells []results.Cell
	river := results.Entrant{Peer: "river", Profile: "bench"}
	for i := range 2 * minRuns {
		for side, c := range map[results.Entrant]results.Cell{
			sides[0]: {PerSecond: 100, Costs: measure.Costs{WALBytes: float64(300 + i)}},
			sides[1]: {PerSecond: 200, PeakMemory: 40, Costs: measure.Costs{WALBytes: 305, ClientCPU: 7}},
			river:    {PerSecond: 50},
		} {
			c.Key = results.Key{Workload: results.Drain, Entrant: side, Round: i}
			cells = append(cells, c)
		}
	}
	cells = append(cells, results.Cell{Key: cells[0].Key, Error: "gone\nwith a stack"})
	var text strings.Builder
	if err := newReport(&checkouts{}, cells).write(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"jobs/s              100 (100 to 100)", "200 (200 to 200)", "10+10  2.00   better\n",
		"log, bytes/job      304 (300 to 309)           305 (305 to 305)  10+10  1.00   \n", "client memory, MiB  -                          40 (40 to 40)     0+10   -", ": gone\n",
		"river:bench       50 (50 to 50)                                10     4.00   \n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "worse\n") {
		t.Errorf("what overlaps is judged:\n%s", &text)
	}
}
