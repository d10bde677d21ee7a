package main

// phases shows a bar for each phase in turn, on a terminal's standard error, and nothing elsewhere.
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
