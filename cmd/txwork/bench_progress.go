package main

// phases shows one progress bar after another, one for each phase, if standard error is a terminal; otherwise it shows
// nothing.
type phases struct {
	app   *app
	phase string
	bar   *progress
}

func (p *phases) show(phase string, done, total int64) {
	if phase != p.phase {
		p.clear()
		p.phase, p.bar = phase, p.app.newTally(phase, "jobs", total)
	}
	p.bar.set(done)
}

func (p *phases) clear() {
	if p.bar != nil {
		p.bar.end()
	}
}
