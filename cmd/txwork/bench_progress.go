package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// phases shows a bar for each phase in turn, on a terminal's standard error, and nothing elsewhere.
type phases struct {
	app   *app
	phase string
	bar   *progress
}

func (p *phases) show(phase string, done, total int64) {
	if phase != p.phase {
		p.clear()
		p.phase, p.bar = phase, p.app.newPhase(phase, total)
	}
	p.bar.set(done)
}

func (p *phases) clear() {
	if p.bar != nil {
		p.bar.clear()
	}
}

// newPhase is newProgress for what is counted in jobs.
func (a *app) newPhase(phase string, total int64) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription(phase),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}
