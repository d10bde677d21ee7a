//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A fakeRepo is a repository whose cmd/txwork prints results without a database.
type fakeRepo struct {
	*testing.T
	dir string
}

func newFakeRepo(t *testing.T) *fakeRepo {
	t.Helper()
	f := &fakeRepo{t, t.TempDir()}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GOWORK", "off")
	f.write("go.mod", "module example.com/fake\n\ngo 1.26\n")
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

// txwork makes body the program for `txwork bench`; commit says whether it is committed or left in the working tree.
func (f *fakeRepo) txwork(body string, commit bool) {
	f.Helper()
	f.write("cmd/txwork/main.go", `package main

import ("fmt"; "os"; "os/signal"; "time")

var _, _, _ = signal.Notify, time.Sleep, fmt.Println

func main() {
	workload := os.Args[2]
	`+body+`
}
`)
	if commit {
		f.git("add", "-A")
		f.git("commit", "--quiet", "-m", "a commit")
	}
}

// Bodies of the program. A workload that is absent once is not run again.
const (
	fast = `fmt.Println("{\"lost\":0,\"jobs_per_second\":200,\"comparison\":{\"with\":{\"buffers_per_job\":3}},\"p50_ms\":1}"); _ = workload`
	slow = `if workload == "crowd" { fmt.Fprintln(os.Stderr, "txwork: unknown flag: --kind"); os.Exit(2) }
	fmt.Println("progress\n{\"lost\":0,\"jobs_per_second\":100,\"p50_ms\":2}")`
	lossy  = `fmt.Println("{\"lost\":7,\"jobs_per_second\":100}"); _ = workload; os.Exit(1)`
	broken = `_ = workload; fmt.Fprintln(os.Stderr, "txwork: no server"); os.Exit(1)`
	// slowEnd ends at the interrupt, and leaves a file behind
	slowEnd = `_ = workload
	c := make(chan os.Signal, 1); signal.Notify(c, os.Interrupt)
	os.WriteFile(os.Getenv("FAKE_STARTED"), nil, 0o644)
	<-c
	os.WriteFile(os.Getenv("FAKE_STOPPED"), nil, 0o644); os.Exit(130)`
)

func (f *fakeRepo) check(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	f.Helper()
	var out, said bytes.Buffer
	code = realMain(ctx, f.dir, args, &out, &said)
	f.tidy()
	return code, out.String(), said.String()
}

// tidy fails if any file or worktree is left behind.
func (f *fakeRepo) tidy() {
	f.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "txwork-bench-check-*"))
	f.ok(err)
	if worktrees := f.git("worktree", "list"); len(left) > 0 || strings.Count(worktrees, "\n") > 0 {
		f.Errorf("left behind: %v, worktrees %s", left, worktrees)
	}
}

func TestCheck(t *testing.T) {
	f := newFakeRepo(t)
	f.txwork(slow, true)
	base := f.git("rev-parse", "--short", "HEAD")
	f.txwork(fast, true)
	code, stdout, stderr := f.check(t.Context(), "--json", "--rounds", "3")
	if code != 0 {
		t.Fatalf("it exits with %d: %s", code, stderr)
	}
	var got report
	f.ok(json.Unmarshal([]byte(stdout), &got))
	if !strings.HasPrefix(got.Base, base) {
		t.Errorf("the base is %q, want %s", got.Base, base)
	}
	if len(got.LeftOut) != 1 || !strings.Contains(got.LeftOut[0], "base, crowd") ||
		!strings.Contains(got.LeftOut[0], "unknown flag: --kind") {
		t.Errorf("left out is %q, want that the base lacks the crowd", got.LeftOut)
	}
	first := got.Rows[0]
	if first.Metric != "jobs_per_second" || *first.Ratio != 2 || !first.Apart ||
		*first.Base != (figures{100, 100, 100, 6}) {
		t.Errorf("the first row is %+v, want 100 against 200 jobs/s, six runs each", first)
	}
	last := got.Rows[len(got.Rows)-1]
	if last.Metric != "comparison.with.buffers_per_job" || last.Base != nil || last.Tree == nil || last.Ratio != nil {
		t.Errorf("the last row is %+v, want the working tree's crowd alone", last)
	}
}

func TestCheckForPeople(t *testing.T) {
	f := newFakeRepo(t)
	f.txwork(slow, true)
	f.txwork(fast, false) // the working tree is measured as it is
	code, stdout, stderr := f.check(t.Context(), "--base", "HEAD", "--short", "--rounds", "3")
	if code != 0 {
		t.Fatalf("it exits with %d: %s", code, stderr)
	}
	for _, want := range []string{"drain --jobs 20000", "100 (100 to 100)", "200 (200 to 200)", "6+6   2.00   better\n",
		"left out: base, crowd"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "worse\n") || !strings.Contains(stderr, "47/48") {
		t.Errorf("got\n%s\nafter\n%s", stdout, stderr)
	}
}

func TestWhatFails(t *testing.T) {
	for name, test := range map[string]struct {
		base, tree string
		code       int
		says       string
	}{
		"the tree loses jobs":      {fast, lossy, exitFailed, "working tree, drain --jobs 20000: 7 jobs were lost"},
		"the base loses jobs":      {lossy, fast, exitFailed, "base, drain --jobs 20000: 7 jobs were lost"},
		"the tree does not run":    {fast, broken, exitFailed, "txwork: no server"},
		"the base does not run":    {broken, fast, 0, "left out: exit status 1: txwork: no server"},
		"the tree is slower":       {fast, slow, 0, ""},
		"the tree cannot be built": {fast, "no Go", exitFailed, "the working tree cannot be built"},
		"the base cannot be built": {"no Go", fast, exitFailed, "the base cannot be built"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRepo(t)
			f.txwork(test.base, true)
			f.txwork(test.tree, true)
			code, _, stderr := f.check(t.Context(), "--short")
			if code != test.code || !strings.Contains(stderr, test.says) {
				t.Errorf("it exits with %d and says\n%s\nwant %d and %q", code, stderr, test.code, test.says)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	f := newFakeRepo(t)
	started, stopped := filepath.Join(t.TempDir(), "started"), filepath.Join(t.TempDir(), "stopped")
	t.Setenv("FAKE_STARTED", started)
	t.Setenv("FAKE_STOPPED", stopped)
	f.txwork(slowEnd, true)
	f.txwork(fast, true)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		for _, err := os.Stat(started); err != nil && ctx.Err() == nil; _, err = os.Stat(started) {
			time.Sleep(5 * time.Millisecond)
		}
		interrupt()
	}()
	code, stdout, stderr := f.check(ctx, "--short")
	if code != exitInterrupted || !strings.Contains(stdout, "base:") {
		t.Errorf("it exits with %d, prints\n%s\nand says\n%s", code, stdout, stderr)
	}
	if _, err := os.Stat(stopped); err != nil {
		t.Errorf("the run was not allowed to end: %v", err)
	}
}

func TestBase(t *testing.T) {
	f := newFakeRepo(t)
	f.txwork(slow, true)
	first := f.git("rev-parse", "HEAD")
	if _, err := (repository{f.dir}).base(t.Context(), ""); err == nil ||
		!strings.Contains(err.Error(), "name a commit by BASE") {
		t.Errorf("of the first commit the error is %v", err)
	}
	f.txwork(fast, true)
	second := f.git("rev-parse", "HEAD")
	want := func(given, commit string) {
		t.Helper()
		if got, err := (repository{f.dir}).base(t.Context(), given); err != nil || got != commit {
			t.Errorf("the base is %s, %v, want %s", got, err, commit)
		}
	}
	want("", first)
	f.git("switch", "--quiet", "-c", "branch")
	f.txwork(slow, true)
	f.txwork(fast, true)
	want("", second)
	want("HEAD~3", first)
	f.git("branch", "-D", "main")
	want("", f.git("rev-parse", "HEAD~1"))
	if _, err := (repository{f.dir}).base(t.Context(), "nonsense"); err == nil {
		t.Error("a commit that does not exist is accepted")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"more"}, {"--rounds", "-1"}} {
		var stdout, stderr bytes.Buffer
		if code := realMain(t.Context(), ".", args, &stdout, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("%v exits with %d and says %q", args, code, stderr.String())
		}
	}
}

func TestFigures(t *testing.T) {
	runs := []map[string]float64{{"x": 9}, {"x": 1}, {"y": 5}, {"x": 3}, {"x": 2}}
	if got := figuresOf(runs, "x"); *got != (figures{Median: 2.5, Min: 1, Max: 9, Runs: 4}) {
		t.Errorf("got %+v", got)
	}
	if got := figuresOf(runs, "z"); got != nil {
		t.Errorf("of nothing it is %+v", got)
	}
}
