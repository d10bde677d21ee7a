package mutation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// A lab tries one mutant at a time. It has a directory and a server.
type lab struct {
	root, dir string
	url       string
	limits    limits
	originals *originals
}

func withLab(ctx context.Context, root string, o *originals, fn func(*lab) error) (err error) {
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
	return fn(&lab{root: root, dir: dir, url: server.URL(), originals: o})
}

// try runs the suites until one of them notices the mutant.
func (l *lab) try(ctx context.Context, m mutant, suites []suite) (r result, err error) {
	start := time.Now()
	r = result{Mutant: m.Name, Print: m.print}
	built := map[string]string{}
	for _, s := range suites {
		if built[s.dir] == "" {
			if built[s.dir], err = l.build(ctx, m, s.dir); err != nil {
				return r, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		first, err := l.test(ctx, built[s.dir], s)
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.Name, err)
		}
		if first.test != "" {
			r.Dir, r.Killer, r.TimedOut = s.dir, first.test, first.timedOut
			r.Once, err = l.passesAlone(ctx, built[s.dir], s, first)
			r.Seconds = time.Since(start).Seconds()
			return r, err
		}
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// repeats is how often a killer may pass alone before it counts as unsteady.
const repeats = 2

// passesAlone repeats a killer alone, because it may have failed on a slow machine and not because of the mutant.
func (l *lab) passesAlone(ctx context.Context, binary string, s suite, first failure) (bool, error) {
	s.run = alone(first.test)
	if s.run == "" || first.timedOut {
		return false, nil
	}
	for range repeats {
		again, err := l.test(ctx, binary, s)
		if err != nil || again.test != "" {
			return false, err
		}
	}
	return true, nil
}

// test runs a suite until its first test fails.
func (l *lab) test(ctx context.Context, binary string, s suite) (failure, error) {
	limit := l.limits.of(s)
	bounded, cancel := context.WithTimeout(ctx, limit+time.Minute) // go test's own limit, which comes first, says more
	defer cancel()
	url, drop, err := l.database(ctx)
	if err != nil {
		return failure{}, err
	}
	defer drop()
	args := []string{"-test.v=test2json", "-test.failfast", "-test.timeout", limit.String()}
	if s.run != "" {
		args = append(args, "-test.run", s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip", s.skip)
	}
	cmd := exec.CommandContext(bounded, binary, args...)
	cmd.Dir = filepath.Join(l.root, s.dir)
	cmd.Env = append(os.Environ(), localpg.DatabaseURLEnv+"="+url, pgtest.FullEnv+"=1")
	first, err := firstFailure(cmd)
	if ctx.Err() != nil {
		return failure{}, context.Cause(ctx) // a failure now comes from the interruption
	}
	if bounded.Err() != nil {
		first.timedOut = true
	}
	return first, err
}
