package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// A result is what an environment's tests came to. Tests and cases count alike.
type result struct {
	name                    string
	packages                int
	passed, failed, skipped int
	why                     string // it could not be run at all: unavailable, or broken
	unavailable             bool
	failures                []string // names of tests, and packages that ended otherwise
	took                    time.Duration
}

func (r result) verdict() string {
	switch {
	case r.unavailable:
		return "SKIPPED"
	case r.why != "", len(r.failures) > 0, r.passed == 0:
		return "FAIL"
	}
	return "pass"
}

// run prepares the environment, runs its suite and tells of it.
func (e environment) run(ctx context.Context, b *builder, limit time.Duration, progress io.Writer) (r result) {
	fmt.Fprintf(progress, "== %s\n", e.name)
	r.name = e.name
	err := e.runTests(ctx, b, limit, progress, &r)
	if err != nil {
		r.why = err.Error()
		r.unavailable = errors.As(err, &unavailable{})
		fmt.Fprintf(progress, "   %s: %s\n", r.verdict(), r.why)
	}
	return r
}

func (e environment) runTests(ctx context.Context, b *builder, limit time.Duration, progress io.Writer,
	r *result) error {
	env, end, err := e.prepare(ctx)
	if err != nil {
		return err
	}
	defer end()
	binaries, err := b.build(ctx, e.suite)
	if err != nil {
		return err
	}
	start := time.Now()
	for _, test := range binaries {
		output, err := test.run(ctx, e.suite.pattern, env, limit)
		r.add(test.pack, output, err)
		if err != nil {
			fmt.Fprintf(progress, "   %s: %v\n%s\n", test.pack, err, complaints(output))
		}
	}
	r.took = time.Since(start)
	return nil
}

func (b binary) run(ctx context.Context, pattern string, env []string, limit time.Duration) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.file, "-test.v", "-test.run="+pattern, "-test.timeout="+limit.String())
	cmd.Dir = b.dir
	cmd.Env = append(append(os.Environ(), pgtest.FullEnv+"=1"), env...)
	return cmd.CombinedOutput()
}

var outcome = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// add counts what a package's tests printed. A package that ended otherwise than by its tests' failures, by running
// out of time say, is a failure of its own.
func (r *result) add(pack string, output []byte, err error) {
	r.packages++
	before := r.failed
	for line := range bytes.Lines(output) {
		m := outcome.FindSubmatch(line)
		if m == nil {
			continue
		}
		switch string(m[1]) {
		case "PASS":
			r.passed++
		case "SKIP":
			r.skipped++
		case "FAIL":
			r.failed++
			r.failures = append(r.failures, pack+" "+string(m[2]))
		}
	}
	if err != nil && r.failed == before {
		r.failures = append(r.failures, pack+": "+err.Error())
	}
}
