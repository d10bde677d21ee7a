package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar on a terminal's standard error, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

// newBar makes a bar where standard error is a terminal.
func (a *app) newBar(total int64, doing string, options func(terminal io.Writer) []progressbar.Option) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(total, append(options(f),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)...)}
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

// clear takes the bar from the terminal, to make room for text.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
