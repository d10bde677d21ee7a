package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar on a terminal's standard error, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress makes a bar over so many bytes; a spinner where they are not known.
func (a *app) newProgress(size int64) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription("sending"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
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
