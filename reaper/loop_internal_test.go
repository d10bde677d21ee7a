package reaper

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// play runs a loop whose turns end as the script says, and returns the times at which they began.
func play(t *testing.T, random float64, script ...func() (pace, error)) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	var times []time.Duration
	loop{
		interval: 15 * time.Second,
		random:   func() float64 { return random },
		outage:   func(error) bool { return false },
		logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		turn: func(context.Context) (pace, error) {
			times = append(times, time.Since(start))
			if len(times) > len(script) {
				cancel()
				return pace{}, nil
			}
			return script[len(times)-1]()
		},
	}.run(ctx)
	return times
}

func ok() (pace, error)    { return pace{}, nil }
func again() (pace, error) { return pace{again: true}, nil }
func fail() (pace, error)  { return pace{}, errors.New("down") }

func within(d time.Duration) func() (pace, error) {
	return func() (pace, error) { return pace{within: d}, nil }
}

func TestLoopTimes(t *testing.T) {
	const s = time.Second
	type script = []func() (pace, error)
	for name, test := range map[string]struct {
		random float64
		script script
		want   []time.Duration
	}{
		"every interval":         {0, script{ok, ok}, []time.Duration{0, 15 * s, 30 * s}},
		"earlier by chance":      {0.5, script{ok, ok}, []time.Duration{0, 13500 * time.Millisecond, 27 * s}},
		"at once for more":       {0, script{again, again, ok}, []time.Duration{0, 0, 0, 15 * s}},
		"when a lease ends":      {0, script{within(4 * s), ok}, []time.Duration{0, 4 * s, 19 * s}},
		"lease ends later":       {0, script{within(time.Hour)}, []time.Duration{0, 15 * s}},
		"lease ends this moment": {0, script{within(1)}, []time.Duration{0, MinInterval}},
		"backoff up to interval": {0, script{fail, fail, fail, fail, fail, fail}, []time.Duration{0, 1 * s, 3 * s,
			7 * s, 15 * s, 30 * s, 45 * s}},
		"backoff starts afresh": {0, script{fail, fail, ok, fail}, []time.Duration{0, 1 * s, 3 * s, 18 * s, 19 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := play(t, test.random, test.script...); !slices.Equal(got, test.want) {
					t.Errorf("turns at %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	l := loop{interval: 15 * time.Second, random: func() float64 { return 0 }}
	if got := l.backoff(1 << 30); got != l.interval {
		t.Errorf("backoff %v, want %v", got, l.interval)
	}
}

func TestLoopStopsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start, turns := time.Now(), 0
		loop{
			interval: 15 * time.Second,
			random:   func() float64 { return 0 },
			outage:   func(error) bool { return false },
			turn:     func(context.Context) (pace, error) { turns++; return pace{}, nil },
		}.run(ctx)
		if took := time.Since(start); took != 20*time.Second || turns != 2 {
			t.Errorf("%d turns in %v, want 2 in 20s", turns, took)
		}
	})
}

// If the look for unserved tables fails because of an outage, only the outage is logged, and not the failed look.
func TestALookThatMeetsAnOutageIsPartOfIt(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("connection reset by peer"), "database does not answer"},
		{&pgconn.PgError{Code: "42501"}, "reaper could not look"},
	} {
		var log strings.Builder
		r := &reaper{pool: broken{c.err}, logger: slog.New(slog.NewTextHandler(&log, nil))}
		if unserved := r.unserved(t.Context()); unserved != nil {
			t.Errorf("%v: %v unserved", c.err, unserved)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.want) {
			t.Errorf("%v: logged %s", c.err, got)
		}
	}
}

// broken is a pool that cannot provide a connection.
type broken struct{ err error }

func (b broken) AcquireFunc(context.Context, func(*pgxpool.Conn) error) error { return b.err }
