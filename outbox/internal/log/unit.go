package log

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// A unit is what one call of a handler gets.
type unit struct {
	rows  []*workqueue.ExternalRow
	began atomic.Int64 // the last call, in nanoseconds since the epoch of the process
	hung  bool
}

// dispatch hands out what is ready. If there is no place, it returns what to wait for.
func (p *page) dispatch(now time.Time) (free <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		taken, free := p.places.take()
		if !taken {
			if p.waiting(now) == 0 {
				free = nil
			}
			return free
		}
		u := p.next(now)
		if u == nil {
			p.places.give()
			return nil
		}
		go p.serve(u)
	}
}

// waiting is how many of those that are ready may be handed out.
func (p *page) waiting(now time.Time) int {
	if p.away || p.stopping && !now.Before(p.abortAt) {
		return 0
	}
	return p.readyBefore(p.limit)
}

// next takes what is to be handed out next; nil: there is nothing.
func (p *page) next(now time.Time) *unit {
	n := p.waiting(now)
	if n == 0 {
		return nil
	}
	rows, taken := p.handlers.Unit(p.ready[:n], p.behind)
	u := &unit{rows: rows}
	u.begins()
	p.ready = p.ready[taken:]
	p.units[u] = true
	for _, row := range u.rows {
		p.high = max(p.high, row.Place+1)
		p.messages[row.Place].unit = u
	}
	return u
}

// behind takes the message behind another one in its key, for the same batch; nil: none may be handed out.
func (p *page) behind(row *workqueue.ExternalRow) *workqueue.ExternalRow {
	m := p.messages[row.Place].next
	if m == nil || m.unit != nil || m.place >= p.limit {
		return nil
	}
	return p.handlers.Take(m.place, m.Read)
}

// serve handles a unit, and then others for as long as the page has some, in the place that was taken.
func (p *page) serve(u *unit) {
	defer p.places.give()
	defer func() { // also if a handler ends its goroutine
		if u != nil {
			p.finish(u, time.Now(), false)
		}
	}()
	begins := func() { u.begins() }
	ended := func(row *workqueue.ExternalRow) {
		end := row.End()
		if end.Outcome == workqueue.RowUnavailable && !p.isHung(u) {
			p.tellAway(end.Error)
		}
		p.end(u, row.Place, end)
	}
	for since := time.Now(); u != nil; {
		p.handlers.Handle(u.rows, begins, ended)
		now := time.Now()
		u = p.finish(u, now, p.places.keep(now.Sub(since)))
	}
}

// finish ends a unit, and takes the next one if the place may be kept.
func (p *page) finish(u *unit, now time.Time, goesOn bool) (next *unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.units, u)
	if goesOn {
		next = p.next(now)
	}
	switch {
	case p.stopping, next == nil && (len(p.ready) > 0 || len(p.units) == 0),
		next != nil && len(next.rows) < len(u.rows) && len(p.ready) > 0: // others can have the rest
		p.wake()
	}
	return next
}

// processStart is the epoch of a monotonic clock.
var processStart = time.Now()

func (u *unit) begins() { u.began.Store(int64(time.Since(processStart))) }

func (u *unit) hangsAt(after time.Duration) time.Time {
	return processStart.Add(time.Duration(u.began.Load()) + after)
}

// end takes in the end of a message.
func (p *page) end(u *unit, place int, end workqueue.ExternalEnd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.hung {
		return
	}
	defer p.passEnded()
	m := &p.messages[place]
	m.unit = nil
	if m.ended { // it is parked with one before it in its key
		return
	}
	m.last = end
	f := Failure{Error: end.Error, Delay: Seconds(end.Delay)}
	switch end.Outcome {
	case workqueue.RowUnavailable, workqueue.RowReleased: // the message has not ended
		if m.before == nil || m.before.ended {
			p.makeReady(place)
		}
		return
	case workqueue.RowAbandoned:
		p.fail(place, f)
		return
	case workqueue.RowFailed:
		f.Outcome = "fail"
		p.fail(place, f)
		return
	case workqueue.RowSnoozed, workqueue.RowLeft:
		f.Outcome = "snooze"
		p.fail(place, f)
		return
	case workqueue.RowCancelled:
		p.logger.LogAttrs(context.Background(), slog.LevelInfo, "message was cancelled by its handler",
			slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", end.Error))
	}
	m.ended = true
	if m.next != nil && m.next.unit == nil { // it is not in the same batch
		p.makeReady(m.next.place)
	}
}
