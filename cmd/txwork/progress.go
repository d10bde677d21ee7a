package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar if standard error is a terminal. Otherwise it shows nothing.
type progress struct {
	bar  *progressbar.ProgressBar
	stop context.CancelFunc
}

// newBar makes a bar if standard error is a terminal and the output is for people. Without a total it shows the elapsed
// time until its end, even while no progress is reported.
func (a *app) newBar(total int64, doing string, options func(terminal io.Writer) []progressbar.Option) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || a.asJSON || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &progress{stop: stop, bar: progressbar.NewOptions64(total, append(options(f),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // the bar's own goroutine would read without the lock
	)...)}
	if total >= 0 {
		return p // there is nothing to show before the first of them
	}
	go func() {
		for ctx.Err() == nil {
			p.bar.Describe(doing)
			sleep(ctx, 200*time.Millisecond)
		}
	}()
	return p
}

// newProgress makes a bar over a number of bytes, or a spinner if the size is -1.
func (a *app) newProgress(size int64) *progress {
	return a.newBar(size, "sending", func(terminal io.Writer) []progressbar.Option {
		return []progressbar.Option{progressbar.OptionSetWriter(terminal), progressbar.OptionShowBytes(true)}
	})
}

// tallyAfter is how long an operation must take before its bar is shown.
const tallyAfter = time.Second

// newTally makes a bar with the rate and the remaining time over a number of things, or -1 if that is unknown. It
// appears after a second.
func (a *app) newTally(doing, things string, total int64) *progress {
	return a.newBar(total, doing, func(terminal io.Writer) []progressbar.Option {
		return []progressbar.Option{
			progressbar.OptionSetWriter(&late{terminal, time.Now().Add(tallyAfter)}),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(things),
		}
	})
}

// newWait shows what is being done and for how long, after a second.
func (a *app) newWait(doing string) *progress {
	return a.newBar(-1, doing, func(terminal io.Writer) []progressbar.Option {
		return []progressbar.Option{progressbar.OptionSetWriter(&late{terminal, time.Now().Add(tallyAfter)})}
	})
}

// late discards what is written before its time.
type late struct {
	to   io.Writer
	from time.Time
}

func (l *late) Write(text []byte) (int, error) {
	if time.Now().Before(l.from) {
		return len(text), nil
	}
	return l.to.Write(text)
}

func (p *progress) set(n int64) {
	if p.bar != nil {
		p.bar.Set64(n)
	}
}

// of reports progress when the total changes too.
func (p *progress) of(n, total int64) {
	if p.bar != nil {
		p.bar.ChangeMax64(total)
		p.set(n)
	}
}

// end removes the bar from the terminal for good.
func (p *progress) end() {
	if p.bar != nil {
		p.stop()
		p.bar.Finish()
	}
}

// clear removes the bar from the terminal to make room for text.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
