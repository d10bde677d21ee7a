package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/txwork/txwork/internal/localpg"
)

// A result is what became of a mutant. Killer is empty where it survived. A suite that does not end in time has
// noticed nothing: the machine may just be slow.
type result struct {
	Mutant   string  `json:"mutant"`
	Killer   string  `json:"killer,omitempty"`
	TimedOut bool    `json:"timed_out,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// timedOut stands in for the name of a killer.
const timedOut = "timed out"

func (r result) String() string {
	killer := r.Killer
	switch {
	case r.TimedOut:
		killer = "SURVIVED: a suite did not end in time, see --limit"
	case killer == "":
		killer = "SURVIVED"
	}
	return fmt.Sprintf("%-90s %s (%.0f s)", r.Mutant, killer, r.Seconds)
}

// runAll runs the mutants, some at once, and tells of each as it ends. The results are in the order of the mutants.
func runAll(ctx context.Context, root string, mutants []mutant, o options, done func(result, int)) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]result, len(mutants))
	next := make(chan int)
	unchanged := &originals{binaries: map[string][]byte{}}
	var mu sync.Mutex
	finished := 0
	var lanes sync.WaitGroup
	for range min(o.parallel, len(mutants)) {
		lanes.Go(func() {
			err := withLab(ctx, root, o.limit, unchanged, func(l *lab) error {
				for i := range next {
					r, err := l.try(ctx, mutants[i])
					if err != nil {
						return err
					}
					mu.Lock()
					results[i] = r
					finished++
					done(r, finished)
					mu.Unlock()
				}
				return nil
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for i := range mutants {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	lanes.Wait()
	return results, context.Cause(ctx)
}

// A lab is where one mutant at a time is tried: a directory and a server.
type lab struct {
	root, dir string
	url       string
	limit     time.Duration
	originals *originals
}

func withLab(ctx context.Context, root string, limit time.Duration, o *originals, fn func(*lab) error) (err error) {
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := localpg.Start(ctx, localpg.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return fn(&lab{root: root, dir: dir, url: server.URL(), limit: limit, originals: o})
}

// try runs the mutant's suites until one notices.
func (l *lab) try(ctx context.Context, m mutant) (result, error) {
	start := time.Now()
	built := map[string]string{}
	for _, s := range m.suites {
		if built[s.dir] == "" {
			binary, err := l.build(ctx, m, s.dir)
			if err != nil {
				return result{}, fmt.Errorf("%s: %w", m.Name, err)
			}
			built[s.dir] = binary
		}
		killer, err := l.test(ctx, built[s.dir], s)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", m.Name, err)
		}
		if killer == timedOut {
			return result{Mutant: m.Name, TimedOut: true, Seconds: time.Since(start).Seconds()}, nil
		}
		if killer != "" {
			return result{Mutant: m.Name, Killer: killer, Seconds: time.Since(start).Seconds()}, nil
		}
	}
	return result{Mutant: m.Name, Seconds: time.Since(start).Seconds()}, nil
}

// test runs a suite until a test fails, and returns its name; empty where all pass.
func (l *lab) test(ctx context.Context, binary string, s suite) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit+time.Minute)
	defer cancel()
	url, drop, err := l.database(ctx)
	if err != nil {
		return "", err
	}
	defer drop()
	args := []string{"-test.v=test2json", "-test.failfast", "-test.timeout", l.limit.String()}
	if s.run != "" {
		args = append(args, "-test.run", s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip", s.skip)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(l.root, s.dir)
	cmd.Env = append(os.Environ(), localpg.DatabaseURLEnv+"="+url)
	killer, err := firstFailure(cmd)
	if ctx.Err() != nil { // it was killed
		killer = timedOut
	}
	return killer, err
}

var (
	// The byte before them is what -test.v=test2json adds; only so is a subtest reported before its parent ends.
	failed   = regexp.MustCompile(`^\x16?\s*--- FAIL: (\S+)`)
	running  = regexp.MustCompile(`^\x16?=== (?:RUN|CONT)\s+(\S+)`)
	panicked = regexp.MustCompile(`^(panic: .*|fatal error: .*|goleak: .*)`)
)

// firstFailure runs the tests, with their children in a group of their own, and ends them all once one has failed.
func firstFailure(cmd *exec.Cmd) (killer string, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		return "", err
	}
	found := make(chan string, 1)
	go func() { found <- scan(read, func() { _ = cmd.Cancel() }) }()
	err = cmd.Wait()
	write.Close()
	killer = <-found
	switch {
	case killer != "":
		return killer, nil
	case err != nil:
		return "the run: " + err.Error(), nil
	}
	return "", nil
}

// scan reads the output of tests to its end and names the first failure, for which it calls stop.
func scan(output io.Reader, stop func()) (killer string) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	current := ""
	for lines.Scan() {
		line := lines.Text()
		if m := running.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		if killer != "" {
			continue
		}
		if m := failed.FindStringSubmatch(line); m != nil {
			killer = m[1]
		} else if strings.HasPrefix(line, "panic: test timed out") {
			killer = timedOut
		} else if m := panicked.FindStringSubmatch(line); m != nil {
			killer = current + " (" + m[1] + ")"
		}
		if killer != "" {
			stop()
		}
	}
	_, _ = io.Copy(io.Discard, output) // a line beyond the buffer must not block the tests
	return killer
}
