package mutation

import (
	"bufio"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A failure is the first test of a run that failed, or empty if all passed.
type failure struct {
	test     string
	timedOut bool
}

var (
	// The byte before each of them is added by -test.v=test2json, without which a subtest is reported only after its
	// parent ends.
	failed   = regexp.MustCompile(`^\x16?\s*--- FAIL: (\S+)`)
	running  = regexp.MustCompile(`^\x16?=== (?:RUN|CONT)\s+(\S+)`)
	panicked = regexp.MustCompile(`^(panic: .*|fatal error: .*|goleak: .*)`)
	// late matches the lines that go test prints at its time limit for tests that have not ended.
	late = regexp.MustCompile(`^\t+(Test\S+) \(\S+\)$`)
)

const tooLate = "panic: test timed out"

// firstFailure runs the tests in their own process group, and kills the group after the first failure.
func firstFailure(cmd *exec.Cmd) (failure, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		return failure{}, err
	}
	found := make(chan failure, 1)
	go func() { found <- scan(read, func() { _ = cmd.Cancel() }) }()
	err := cmd.Wait()
	write.Close()
	first := <-found
	if first.test == "" && err != nil {
		first.test = "the run: " + err.Error()
	}
	return first, nil
}

// scan reads the output of tests to its end and returns the first failure, at which it calls stop.
func scan(output io.Reader, stop func()) (first failure) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	current := ""
	for first.test == "" && lines.Scan() {
		line := lines.Text()
		if m := running.FindStringSubmatch(line); m != nil {
			current = m[1]
		} else if m := failed.FindStringSubmatch(line); m != nil {
			first.test = m[1]
		} else if strings.HasPrefix(line, tooLate) {
			first.timedOut = true
		} else if m := late.FindStringSubmatch(line); m != nil && first.timedOut {
			first.test = m[1]
		} else if m := panicked.FindStringSubmatch(line); m != nil {
			first.test = current + " (" + m[1] + ")"
		}
	}
	if first.timedOut && first.test == "" {
		first.test = current
	}
	if first.test != "" {
		stop()
	}
	_, _ = io.Copy(io.Discard, output) // lets the tests write on without blocking
	return first
}

// alone returns the argument of -test.run that selects only the failed test, or an empty string if it was not a test.
func alone(test string) string {
	test, _, _ = strings.Cut(test, " ")
	if !strings.HasPrefix(test, "Test") && !strings.HasPrefix(test, "Fuzz") && !strings.HasPrefix(test, "Example") {
		return ""
	}
	levels := strings.Split(test, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}
