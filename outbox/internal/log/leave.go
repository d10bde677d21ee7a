package log

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// abandonHung has the messages parked whose handler has not returned, although its context was cancelled. It may still
// be at work.
func (p *page) abandonHung(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.passEnded()
	for u := range p.units {
		if u.hung || now.Before(u.hangsAt(p.hungAfter())) {
			continue
		}
		u.hung = true
		reason := fmt.Sprintf("handler did not return within %v of its timeout of %v, and may still be running",
			p.hungAfter()-p.HandlerTimeout, p.HandlerTimeout)
		for _, row := range u.rows {
			m := &p.messages[row.Place]
			if m.unit != u {
				continue
			}
			row.Cancel(workqueue.ErrLeaseLost) // a call that fails is not halved any more
			if m.ended {                       // with one before it in its key
				continue
			}
			p.logger.LogAttrs(context.Background(), slog.LevelError, "message is parked because its handler hangs",
				slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", reason))
			p.fail(row.Place, Failure{Error: reason, Delay: Seconds(p.Backoff.Delay(1))})
		}
	}
}

// beginStop hands out only what lies before what was handed out, so that nothing is repeated.
func (p *page) beginStop(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	p.limit = p.high
	p.abortAt = now.Add(p.ShutdownTimeout)
	p.abandonAt = p.abortAt.Add(p.abortGrace())
}

// hasStopped reports whether the relay stops and nothing is left to wait for.
func (p *page) hasStopped(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		return false
	}
	if !now.Before(p.abortAt) {
		p.cancel(workqueue.ErrShutdown)
	}
	return !now.Before(p.abandonAt) || !p.isRunning() && p.waiting(now) == 0
}

// isRunning reports whether a handler is at work that somebody waits for.
func (p *page) isRunning() bool {
	for u := range p.units {
		if !u.hung {
			return true
		}
	}
	return false
}

// settleRest settles all that has ended when the relay stops. What lies before and has not ended is parked, so that
// nothing is repeated but what was broken off.
func (p *page) settleRest(ctx context.Context) string {
	end := p.parkBefore()
	if end > p.settled || len(p.messages) == 0 {
		if result := p.settle(ctx, end, false); result == Ended || result == Lost {
			return result
		}
	}
	return ""
}

// parkBefore has all messages parked before the last one that has ended, and returns the place behind that.
func (p *page) parkBefore() (end int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end = p.first
	for i := range p.messages {
		if p.messages[i].ended {
			end = max(end, i+1)
		}
	}
	for u := range p.units {
		u.hung = true // nobody waits any more
	}
	for i := range p.messages[:end] {
		if p.messages[i].ended {
			continue
		}
		f := Failure{Error: workqueue.ErrShutdown.Error(), Outcome: "snooze"}
		if p.messages[i].unit != nil {
			f.Delay = Seconds(p.Lease)
		}
		p.fail(i, f)
	}
	return end
}

func (p *page) cancel(cause error) {
	for u := range p.units {
		for _, row := range u.rows {
			row.Cancel(cause)
		}
	}
}

// leave cancels the handlers that still run when the page is over: its lease was lost, or they hang. It waits for those
// that notice.
func (p *page) leave() {
	end := time.Now().Add(p.abortGrace())
	for p.closes() {
		if !time.Now().Before(end) {
			return
		}
		p.wait(time.Until(end), nil, nil)
	}
}

// closes lets nothing more be handed out, and reports whether a handler is still at work.
func (p *page) closes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.stopping = 0, true
	p.cancel(workqueue.ErrLeaseLost)
	return p.isRunning()
}
