package bench

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
)

// A Workload is one thing to measure: [Drain], [Enqueue], [Latency], [Steady] or [Timers].
// Its fields have to be set and within their bounds: there are no defaults.
type Workload interface {
	// Name returns the name of the workload, as results show it.
	Name() string

	// run measures. A result beside an error is what was measured before the error.
	run(ctx context.Context, l *lab) (*Result, error)
}

// Options say where to measure.
type Options struct {
	// DatabaseURL is the user's server. Default: a private one, with fsync and synchronous_commit on.
	DatabaseURL string

	// Process makes the command that calls [RunWorkers] on its standard input and output. The command needs its own
	// process group, so that an interrupt from the terminal does not reach it. Only a Drain with Processes uses it.
	Process func() (*exec.Cmd, error)

	// Logger receives the log messages of the library.
	Logger *slog.Logger

	// Progress is called several times a second, from one goroutine at a time. The phase says what is going on.
	Progress func(phase string, done, total int64)
}

// ErrInterrupted says that the context ended first.
var ErrInterrupted = errors.New("interrupted")

// Run measures a workload and removes everything it created. If ctx ends meanwhile the error is [ErrInterrupted], and
// the result, unless it is nil, is what was measured until then.
func Run(ctx context.Context, o Options, w Workload) (result *Result, err error) {
	l, err := openLab(ctx, o)
	if err == nil {
		result, err = l.measure(ctx, w)
		err = l.autopsy(ctx, err)
		defer func() { err = errors.Join(err, l.close(ctx)) }()
	}
	if ctx.Err() != nil {
		err = ErrInterrupted // whatever error the interruption caused
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
		result.Lost = 0 // work that was not done is not lost if the run was interrupted
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	settings, settingsErr := l.settings(finish)
	result.Settings = settings
	return result, errors.Join(err, settingsErr)
}
