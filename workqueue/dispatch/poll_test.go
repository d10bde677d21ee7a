package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// A script is a Processor made of functions; the missing ones do nothing.
type script struct {
	name    string
	process func(run int) error
	next    func(run int) (*dispatch.Wake, error)

	mu   sync.Mutex
	runs []time.Time
}

func (s *script) Process(context.Context) (int, error) {
	s.mu.Lock()
	s.runs = append(s.runs, time.Now())
	run := len(s.runs)
	s.mu.Unlock()
	if s.process == nil {
		return 1, nil
	}
	return 1, s.process(run)
}

func (s *script) NextWakeAt(context.Context) (*dispatch.Wake, error) {
	if s.next == nil {
		return nil, nil
	}
	return s.next(s.count())
}

func (s *script) Namespace() string { return s.name }

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// since returns the times of the runs after a start.
func (s *script) since(start time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []time.Duration
	for _, r := range s.runs {
		at = append(at, r.Sub(start))
	}
	return at
}

// poll runs a Poll for a while of synctest's time.
func poll(t *testing.T, s *script, o dispatch.PollOptions, during func(*dispatch.Poll)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := dispatch.NewPoll(s, o)
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	synctest.Wait()
	during(p)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func sleepFor(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestPollInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := &script{}, time.Now()
		poll(t, s, dispatch.PollOptions{Interval: 3 * time.Second},
			func(*dispatch.Poll) { sleepFor(10 * time.Second) })
		if got, want := s.since(start), []time.Duration{0, 3 * time.Second, 6 * time.Second,
			9 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("ran at %v, want %v", got, want)
		}
	})
}

func TestPollDefaultInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		poll(t, s, dispatch.PollOptions{}, func(*dispatch.Poll) { sleepFor(10*time.Second + time.Millisecond) })
		if n := s.count(); n != 11 {
			t.Errorf("%d runs in ten seconds, want one at once and one a second", n)
		}
	})
}

func TestPollWakesWhenTheProcessorSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   time.Duration
		want time.Duration
	}{
		"before the interval":  {700 * time.Millisecond, 700 * time.Millisecond},
		"after the interval":   {time.Hour, time.Minute},
		"at once":              {0, 0},
		"in the past":          {-time.Hour, 0},
		"the end of all times": {1<<63 - 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := &script{next: func(run int) (*dispatch.Wake, error) {
					if run == 1 {
						return &dispatch.Wake{In: c.in}, nil
					}
					return nil, nil
				}}
				poll(t, s, dispatch.PollOptions{Interval: time.Minute},
					func(*dispatch.Poll) { sleepFor(c.want + time.Second) })
				if got := s.since(start); len(got) != 2 || got[1] < c.want || got[1] > c.want+20*time.Millisecond {
					t.Errorf("ran at %v, want at once and after %v", got, c.want)
				}
			})
		})
	}
}

// A run that waited for a lock in vain is repeated soon, because nothing announces that the lock is free. Other
// failures are repeated after growing pauses.
func TestPollAfterFailures(t *testing.T) {
	t.Parallel()
	for code, longest := range map[string]time.Duration{
		"55P03": 500 * time.Millisecond, "57014": 500 * time.Millisecond,
		"57P03": 5 * time.Second, "42501": 5 * time.Second,
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{process: func(int) error { return &pgconn.PgError{Code: code} }}
				poll(t, s, dispatch.PollOptions{}, func(*dispatch.Poll) { sleepFor(time.Minute) })
				var pause, before time.Duration
				for _, at := range s.since(time.Now().Add(-time.Minute)) {
					pause, before = max(pause, at-before), at
				}
				if pause != longest {
					t.Errorf("the longest pause is %v, want %v", pause, longest)
				}
			})
		})
	}
}

// A processor that always says that something is due, and never does it, must not use a whole CPU.
func TestPollDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 1000
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &idle{script: script{process: func(run int) error {
			if run == limit {
				cancel()
			}
			return nil
		}}}
		start := time.Now()
		dispatch.NewPoll(s, dispatch.PollOptions{}).Run(ctx)
		if took := time.Since(start); took < time.Second {
			t.Errorf("%d runs that did nothing in %v", limit, took)
		}
	})
}

// idle does nothing, but says that something is due.
type idle struct{ script }

func (i *idle) Process(ctx context.Context) (int, error) {
	_, err := i.script.Process(ctx)
	return 0, err
}

func (*idle) NextWakeAt(context.Context) (*dispatch.Wake, error) { return &dispatch.Wake{}, nil }

// Any number of wakes during a run make exactly one more, and none is lost.
func TestPollCoalescesWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running, release := make(chan struct{}), make(chan struct{})
		s := &script{process: func(run int) error {
			if run == 2 {
				close(running)
				<-release
			}
			return nil
		}}
		poll(t, s, dispatch.PollOptions{Interval: time.Hour}, func(p *dispatch.Poll) {
			p.Wake()
			<-running
			var wakes sync.WaitGroup
			for range 100 {
				wakes.Go(p.Wake)
			}
			wakes.Wait()
			close(release)
			synctest.Wait()
			if n := s.count(); n != 3 {
				t.Errorf("%d runs, want the first, the woken and one for all wakes during it", n)
			}
			p.Wake()
			synctest.Wait()
			if n := s.count(); n != 4 {
				t.Errorf("%d runs after another wake, want 4", n)
			}
			p.Wake()
			p.Wake()
			synctest.Wait()
			if n := s.count(); n > 6 {
				t.Errorf("%d runs after two more wakes", n)
			}
		})
	})
}

func TestPollWakeOutsideRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		p := dispatch.NewPoll(s, dispatch.PollOptions{Interval: time.Hour})
		for range 10 {
			p.Wake() // before
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		if n := s.count(); n < 1 || n > 2 {
			t.Errorf("%d runs, want at most two", n)
		}
		cancel()
		<-done
		p.Wake() // after
	})
}

func TestPollBacksOffAndRecovers(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, fail := range map[string]func() *script{
		"process": func() *script {
			return &script{name: "orders", process: func(run int) error {
				if run <= 12 {
					return boom
				}
				return nil
			}}
		},
		"process panics": func() *script {
			return &script{name: "orders", process: func(run int) error {
				if run <= 12 {
					panic(boom)
				}
				return nil
			}}
		},
		"next wake": func() *script {
			return &script{name: "orders", next: func(run int) (*dispatch.Wake, error) {
				if run <= 12 {
					return &dispatch.Wake{}, boom
				}
				return nil, nil
			}}
		},
		"next wake panics": func() *script {
			return &script{name: "orders", next: func(run int) (*dispatch.Wake, error) {
				if run <= 12 {
					panic(boom)
				}
				return nil, nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := fail(), time.Now()
				var told []error
				onError := func(err error) {
					told = append(told, err)
					panic("in OnError, too")
				}
				poll(t, s, dispatch.PollOptions{Interval: time.Second,
					OnError: onError}, func(*dispatch.Poll) { sleepFor(60 * time.Second) })
				at := s.since(start)
				for i := 1; i < 12; i++ {
					pause := at[i] - at[i-1]
					if pause <= 0 || pause > 10*time.Second || i > 1 && pause < at[i-1]-at[i-2] {
						t.Errorf("pause %d is %v, want one that grows to a bound: %v", i, pause, at)
					}
				}
				if len(at) < 15 || at[14]-at[13] != time.Second {
					t.Errorf("after it recovered it ran at %v", at)
				}
				if len(told) != 12 {
					t.Fatalf("told of %d errors, want 12", len(told))
				}
				if err := told[0]; !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "orders") {
					t.Errorf("told of %q", err)
				}
			})
		})
	}
}

// A wake does not shorten the pause after an error, and is not lost because of the error.
func TestPollKeepsWakesOverAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{process: func(run int) error {
			if run == 1 {
				return errors.New("boom")
			}
			return nil
		}}
		poll(t, s, dispatch.PollOptions{Interval: time.Hour}, func(p *dispatch.Poll) {
			p.Wake()
			synctest.Wait()
			if n := s.count(); n != 1 {
				t.Errorf("%d runs within the pause", n)
			}
			sleepFor(time.Minute)
			if n := s.count(); n != 3 {
				t.Errorf("%d runs, want the failed one, its repetition and the woken one", n)
			}
		})
	})
}

func TestPollStopsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*script{
			"idle":     {},
			"failing":  {process: func(int) error { return errors.New("boom") }},
			"finished": {process: func(int) error { return context.Canceled }},
		} {
			start := time.Now()
			poll(t, s, dispatch.PollOptions{Interval: time.Hour}, func(*dispatch.Poll) {})
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: it took %v to stop", name, took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := &script{}
		if err := dispatch.NewPoll(s, dispatch.PollOptions{}).Run(ctx); err != nil || s.count() != 0 {
			t.Errorf("with a context that is over: %v, %d runs", err, s.count())
		}
	})
}

func TestGroup(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) func(int) (*dispatch.Wake, error) {
		return func(int) (*dispatch.Wake, error) { return &dispatch.Wake{In: d}, nil }
	}
	boom := errors.New("boom")
	failing := &script{name: "failing", process: func(int) error { return boom }, next: func(int) (*dispatch.Wake,
		error) {
		return nil, boom
	}}
	panicking := &script{name: "panicking", process: func(int) error { panic("kaboom") },
		next: func(int) (*dispatch.Wake, error) { panic("kaboom") }}
	late, early, none := &script{name: "late", next: in(time.Hour)}, &script{name: "early", next: in(time.Minute)},
		&script{name: "none"}

	t.Run("earliest wake wins", func(t *testing.T) {
		g := dispatch.Group("all", late, none, early)
		if n, err := g.Process(t.Context()); n != 3 || err != nil {
			t.Errorf("processed %d, %v", n, err)
		}
		if w, err := g.NextWakeAt(t.Context()); err != nil || w == nil || w.In != time.Minute {
			t.Errorf("next wake %v, %v", w, err)
		}
		if g.Namespace() != "all" {
			t.Errorf("namespace %q", g.Namespace())
		}
	})
	t.Run("no wake", func(t *testing.T) {
		for _, g := range []dispatch.Processor{dispatch.Group("none", none), dispatch.Group("empty")} {
			if w, err := g.NextWakeAt(t.Context()); w != nil || err != nil {
				t.Errorf("next wake %v, %v", w, err)
			}
		}
	})
	t.Run("failures are isolated", func(t *testing.T) {
		g := dispatch.Group("all", failing, panicking, early)
		before := early.count()
		n, err := g.Process(t.Context())
		if n < 1 || early.count() != before+1 {
			t.Errorf("processed %d: the one behind the failing ones did not run", n)
		}
		if !errors.Is(err, boom) || !strings.Contains(err.Error(), "failing") ||
			!strings.Contains(err.Error(), "panicking") {
			t.Errorf("error %v", err)
		}
		w, err := g.NextWakeAt(t.Context())
		if w == nil || w.In != time.Minute || !errors.Is(err, boom) || !strings.Contains(err.Error(), "kaboom") {
			t.Errorf("next wake %v, %v", w, err)
		}
	})
	t.Run("in a poll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			healthy := &script{name: "healthy"}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			dispatch.NewPoll(dispatch.Group("all", failing, panicking, healthy), dispatch.PollOptions{}).Run(ctx)
			if n := healthy.count(); n < 10 {
				t.Errorf("a healthy member ran %d times in a minute beside failing ones", n)
			}
		})
	})
}
