package bench

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
)

// A Workload is one thing to measure: [Drain], [Enqueue], [Latency], [Steady], [Timers], [Retained], [Crowd] or
// [Cron]. Its fields have to be set and within their bounds: nothing is defaulted.
type Workload interface {
	// Name is the workload's, as results show it.
	Name() string

	// run measures. What it returns together with an error is what was measured before.
	run(ctx context.Context, l *lab) (*Result, error)
}

// Options say where to measure.
type Options struct {
	// DatabaseURL is a server of the user's. Default: a private one, with fsync and synchronous_commit on.
	DatabaseURL string

	// Process makes the command that calls [RunWorkers] on its standard input and output, in a process group of its
	// own, so that an interrupt from the terminal is not for it. Only a Drain with Processes needs it.
	Process func() (*exec.Cmd, error)

	// Logger is told what the library has to say meanwhile.
	Logger *slog.Logger

	// Progress is called some times a second, from one goroutine at a time. Phase says what is going on.
	Progress func(phase string, done, total int64)
}

// ErrInterrupted says that the context ended first.
var ErrInterrupted = errors.New("interrupted")

// Run measures a workload and leaves nothing behind. If ctx ends meanwhile the error is [ErrInterrupted], and the
// result, unless it is nil, is what was measured until then.
func Run(ctx context.Context, o Options, w Workload) (result *Result, err error) {
	l, err := openLab(ctx, o)
	if err == nil {
		result, err = l.measure(ctx, w)
		defer func() { err = errors.Join(err, l.close(ctx)) }()
	}
	if ctx.Err() != nil {
		err = ErrInterrupted // whatever it has led to
	}
	return result, err
}

// measure fills in what all results have in common.
func (l *lab) measure(ctx context.Context, w Workload) (*Result, error) {
	result, err := w.run(ctx, l)
	if result == nil {
		return nil, err
	}
	result.Parameters = w
	result.Workload, result.Interrupted = w.Name(), ctx.Err() != nil
	if result.Interrupted {
		result.Lost = 0 // what was not done was not to be done
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	settings, settingsErr := l.settings(finish)
	result.Settings = settings
	return result, errors.Join(err, settingsErr)
}
