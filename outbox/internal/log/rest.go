package log

import (
	"context"
	"log/slog"
)

// isAway reports whether the destination is unavailable, and whether handlers of the page are still at work.
func (p *page) isAway() (away, running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away, p.isRunning()
}

// tellAway has the relay's other pages hand out nothing more.
func (p *page) tellAway() {
	p.pages.Range(func(other, _ any) bool {
		if q := other.(*page); q != p {
			q.mu.Lock()
			q.beAway(p.cause)
			q.mu.Unlock()
		}
		return true
	})
}

// beAway hands out nothing more. The first cause counts, which does not change any more.
func (p *page) beAway(cause string) {
	if !p.away {
		p.away, p.cause = true, cause
		p.wake()
	}
}

// rest settles what has ended, wherever in the page, and gives the lane back: the subscription rests. Fetches of all
// consumers are refused meanwhile, except that of one message when the rest is over.
func (p *page) rest(ctx context.Context) string {
	if result := p.settle(ctx, p.first, true); result != Settled {
		return result
	}
	var answer string
	err := p.insist(ctx, func(ctx context.Context) (err error) {
		answer, err = p.reader.Unavailable(ctx, p.token, p.cause)
		return err
	})
	switch {
	case err != nil:
		return ""
	case answer == Began:
		p.logger.LogAttrs(ctx, slog.LevelWarn, "destination is unavailable, its subscription rests",
			slog.String("error", p.cause))
	}
	return Resting
}

// tellAvailable tells that an outage has ended, if the page was the probe and has found out so.
func (p *page) tellAvailable(ctx context.Context, failed []Failure) {
	if p.since == nil || len(p.messages) == 0 || len(failed) > 0 && failed[0].Outcome == "snooze" {
		return
	}
	p.logger.LogAttrs(ctx, slog.LevelInfo, "destination is available again",
		slog.Time("unavailable_since", *p.since))
	p.since = nil
}
