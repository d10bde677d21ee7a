package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar on a terminal's standard error, and nothing elsewhere.
type progress struct {
	bar  *progressbar.ProgressBar
	stop context.CancelFunc
}

// newBar makes a bar where standard error is a terminal and people are to read the answer. Without a total it shows
// the time that has passed until its end, also while nothing is set.
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
		progressbar.OptionSetSpinnerChangeInterval(0), // the bar's own goroutine reads without its lock
	)...)}
	if total >= 0 {
		return p // it has nothing to say before the first of them
	}
	go func() {
		for ctx.Err() == nil {
			p.bar.Describe(doing)
			sleep(ctx, 200*time.Millisecond)
		}
	}()
	return p
}

// newProgress makes a bar over so many bytes; a spinner where they are not known.
func (a *app) newProgress(size int64) *progress {
	return a.newBar(size, "sending", func(terminal io.Writer) []progressbar.Option {
		return []progressbar.Option{progressbar.OptionSetWriter(terminal), progressbar.OptionShowBytes(true)}
	})
}

// tallyAfter is how long something takes before it is worth a bar.
const tallyAfter = time.Second

// newTally makes a bar with rate and remaining time over so many things, -1 where that is not known. It shows once they
// have taken a second.
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

// newWait shows what is being done and for how long, once that is a second.
func (a *app) newWait(doing string) *progress {
	return a.newBar(-1, doing, func(terminal io.Writer) []progressbar.Option {
		return []progressbar.Option{progressbar.OptionSetWriter(&late{terminal, time.Now().Add(tallyAfter)})}
	})
}

// late writes nothing before its time.
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

// of is set where the total changes.
func (p *progress) of(n, total int64) {
	if p.bar != nil {
		p.bar.ChangeMax64(total)
		p.set(n)
	}
}

// end takes the bar from the terminal for good.
func (p *progress) end() {
	if p.bar != nil {
		p.stop()
		p.bar.Finish()
	}
}

// clear takes the bar from the terminal, to make room for text.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
