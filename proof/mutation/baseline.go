package mutation

import (
	"context"
	"fmt"
	"time"
)

// limits are how long suites may take: many times what they take without a mutant.
type limits struct {
	fixed time.Duration // for every suite, unless it is 0
	took  map[suite]time.Duration
}

const (
	unknownLimit = 20 * time.Minute // before the baseline is known
	leastLimit   = 2 * time.Minute
	slack        = 10
)

func (l limits) of(s suite) time.Duration {
	switch {
	case l.fixed > 0:
		return l.fixed
	case l.took == nil:
		return unknownLimit
	}
	return max(leastLimit, slack*l.took[s])
}

// baseline runs every suite of the mutants without any change: a suite that fails then would seem to kill every mutant.
func (l *lab) baseline(ctx context.Context, mutants []mutant, tell func(string)) (map[suite]time.Duration, error) {
	took := map[suite]time.Duration{}
	for _, m := range mutants {
		for _, s := range m.suites {
			if _, ok := took[s]; ok {
				continue
			}
			start := time.Now()
			if err := l.green(ctx, s); err != nil {
				return nil, err
			}
			took[s] = time.Since(start)
			tell(fmt.Sprintf("unchanged: %v passes in %v", s, took[s].Round(time.Second)))
		}
	}
	return took, nil
}

// attempts is how often a suite may fail without a mutant before the run is given up.
const attempts = 2

func (l *lab) green(ctx context.Context, s suite) error {
	binary := l.binary(s.dir)
	if err := l.originals.write(ctx, l.root, s.dir, binary); err != nil {
		return err
	}
	var first failure
	for range attempts {
		var err error
		if first, err = l.test(ctx, binary, s); err != nil || first.test == "" {
			return err
		}
	}
	return fmt.Errorf("%v fails without a mutant: %s", s, first.test)
}
