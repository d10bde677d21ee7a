package log

import (
	"context"
	"log/slog"
	"time"
)

// isAway reports whether the destination is unavailable, and all handlers of the page have ended.
func (p *page) isAway() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away && !p.isRunning()
}

// IsAway reports whether the destination of the subscription is unavailable, as far as the relay knows. Parked messages
// then wait.
func (r *Relay) IsAway() bool { return r.away.Load() != 0 }

// noteAway notes what a fetch says of the destination. One that began before it became unavailable does not know.
func (r *Relay) noteAway(read Page, start time.Time) {
	told := r.away.Load()
	switch {
	case read.UnavailableSince != nil:
		r.away.Store(time.Now().UnixNano())
	case told < start.UnixNano():
		r.away.CompareAndSwap(told, 0)
	}
}

// isHung reports whether nobody waits for a unit any more: what it ends with is ignored.
func (p *page) isHung(u *unit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return u.hung
}

// tellAway has all pages of the relay hand out nothing more. The caller still has its place, so none of them gets that.
func (p *page) tellAway(cause string) {
	p.pages.Range(func(other, _ any) bool {
		other.(*page).beAway(cause)
		return true
	})
}

// beAway hands out nothing more. The first cause counts, and does not change any more.
func (p *page) beAway(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.Relay.away.Store(time.Now().UnixNano())
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
