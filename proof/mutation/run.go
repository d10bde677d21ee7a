package mutation

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// A check is a run over mutants.
type check struct {
	root      string
	options   options
	mutants   []mutant
	journal   *journal
	originals *originals
	progress  io.Writer

	mu      sync.Mutex
	results map[string]result
}

func newCheck(root string, o options, mutants []mutant, j *journal, progress io.Writer) *check {
	return &check{root: root, options: o, mutants: mutants, journal: j, progress: progress,
		originals: &originals{binaries: map[string][]byte{}}, results: map[string]result{}}
}

// run tries the mutants that the journal does not know as killed, several at a time.
func (c *check) run(ctx context.Context) ([]result, error) {
	pending := c.pending()
	if len(pending) > 0 {
		took, err := c.baseline(ctx, pending)
		if err != nil {
			return nil, err
		}
		if err := c.tryAll(ctx, pending, limits{fixed: c.options.limit, took: took}); err != nil {
			return nil, err
		}
	}
	var results []result
	for _, m := range c.mutants {
		results = append(results, c.results[m.Name])
	}
	return results, nil
}

func (c *check) pending() (pending []mutant) {
	for _, m := range c.mutants {
		if r, ok := c.journal.killed(m); ok {
			c.results[m.Name] = r
		} else {
			pending = append(pending, m)
		}
	}
	if n := len(c.results); n > 0 {
		c.tell(fmt.Sprintf("%d mutants were killed before, %d are left", n, len(pending)))
	}
	return pending
}

func (c *check) baseline(ctx context.Context, mutants []mutant) (took map[suite]time.Duration, err error) {
	err = withLab(ctx, c.root, c.originals, func(l *lab) error {
		l.limits.fixed = c.options.limit
		took, err = l.baseline(ctx, mutants, c.tell)
		return err
	})
	return took, err
}

func (c *check) tryAll(ctx context.Context, mutants []mutant, bounds limits) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan mutant)
	var lanes sync.WaitGroup
	for range min(c.options.parallel, len(mutants)) {
		lanes.Go(func() {
			err := withLab(ctx, c.root, c.originals, func(l *lab) error {
				l.limits = bounds
				return c.lane(ctx, l, next)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for _, m := range mutants {
		select {
		case next <- m:
		case <-ctx.Done():
		}
	}
	close(next)
	lanes.Wait()
	return context.Cause(ctx)
}

func (c *check) lane(ctx context.Context, l *lab, next <-chan mutant) error {
	for m := range next {
		suites := m.suites
		if s, ok := c.journal.hint(m); ok {
			suites = append([]suite{s}, suites...)
		}
		r, err := l.try(ctx, m, suites)
		if err != nil {
			return err
		}
		if err := c.finish(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) finish(r result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[r.Mutant] = r
	c.tell(fmt.Sprintf("%3d/%d  %s", len(c.results), len(c.mutants), r))
	return c.journal.add(r)
}

func (c *check) tell(line string) { fmt.Fprintln(c.progress, line) }
