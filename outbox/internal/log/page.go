package log

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// settleEvery is how long progress within a page waits for its settle: what a death repeats is at most the page.
const settleEvery = 200 * time.Millisecond

// extendAgain is the pause after a renewal that failed.
const extendAgain = time.Second

// A message is one of a page.
type message struct {
	*Read
	place  int
	next   *message // of its key
	unit   *unit    // that has it
	ended  bool     // handled, or to be parked
	failed *Failure
}

// A page is what the relay has in hand of a lane. Its messages are handled at once, those of a key one after the other.
// What has ended is settled from the beginning.
//
// One goroutine, that of run, settles, renews and watches. Those of handlers take what is ready by themselves, and wake
// it when there is something to do for it.
type page struct {
	*hand
	upto  int64
	woken chan struct{}

	mu       sync.Mutex
	messages []message
	ready    []*workqueue.ExternalRow // whose key is free, in their order
	units    map[*unit]bool
	first    int // all messages before have ended
	limit    int // all from here on are not handed out
	high     int // the last one that was handed out, plus 1
	stopping bool
	abortAt  time.Time // when the contexts of handlers are cancelled

	// Of run only.
	settled   int // all before are settled
	settledAt time.Time
	extendAt  time.Time
	abandonAt time.Time // when nobody waits for handlers any more
}

// A unit is what one call of a handler gets.
type unit struct {
	rows  []*workqueue.ExternalRow
	probe atomic.Bool  // nobody has noted yet what it found out
	began atomic.Int64 // the last call, in nanoseconds since the epoch of the process
	hung  bool
}

// newPage makes a page. The first message of each key is ready, and so are those without one.
func newPage(h *hand, read Page) *page {
	now := time.Now()
	p := &page{hand: h, messages: make([]message, len(read.Messages)), upto: read.Upto, units: map[*unit]bool{},
		woken: make(chan struct{}, 1), settledAt: now, extendAt: h.expires.Add(-h.Lease * 2 / 3)}
	last := map[string]*message{}
	for i := range read.Messages {
		m := &p.messages[i]
		m.Read, m.place = &read.Messages[i], i
		before := last[m.Key]
		if m.HasKey {
			last[m.Key] = m
		}
		if m.HasKey && before != nil {
			before.next = m
		} else {
			p.makeReady(i)
		}
	}
	p.open()
	return p
}

// open lets the next messages be handed out.
func (p *page) open() { p.limit = min(p.first+p.window(p.attempts), len(p.messages)) }

// reopen lets the next messages be handed out, if the relay does not stop.
func (p *page) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		p.open()
	}
}

// makeReady puts a message in its place among those that are ready.
func (p *page) makeReady(place int) {
	row := p.handlers.Take(place, p.messages[place].Read)
	p.ready = slices.Insert(p.ready, p.readyBefore(place), row)
}

// readyBefore is how many are ready before a place.
func (p *page) readyBefore(place int) int {
	n, _ := slices.BinarySearchFunc(p.ready, place, func(r *workqueue.ExternalRow, place int) int {
		return r.Place - place
	})
	return n
}

// accuse parks the first message of a batch if it was the only one in hand when the last consumer died.
func (p *page) accuse() {
	if len(p.messages) == 0 || p.attempts < 2 || p.window(p.attempts-1) > 1 {
		return
	}
	m := &p.messages[0]
	reason := fmt.Sprintf("%d consumers of the batch have died, the last of them with this message alone in hand",
		p.attempts-1)
	p.logger.LogAttrs(context.Background(), slog.LevelError, "message is parked because its consumers die",
		slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", reason))
	p.ready = slices.DeleteFunc(p.ready, func(r *workqueue.ExternalRow) bool { return r.Place == 0 })
	p.fail(0, Failure{Error: reason, Delay: Seconds(p.Backoff.Delay(p.attempts))})
	p.passEnded()
}

// run works on the page, and returns what the settle of its end answered; "" if it was left before, because ctx was
// cancelled.
func (p *page) run(ctx context.Context) (result string) {
	defer p.leave()
	stop := ctx.Done()
	for {
		now := time.Now()
		if stop != nil && ctx.Err() != nil {
			stop = nil
			p.beginStop(now)
		}
		p.abandonHung(now)
		if result, over := p.advance(ctx, now); over {
			return result
		}
		if p.hasStopped(now) {
			return p.settleRest(ctx)
		}
		free, changed, wake := p.dispatch(now)
		p.wait(p.nextTurn(now, wake), stop, free, changed)
	}
}

// wake wakes run.
func (p *page) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// wait waits for whatever comes first.
func (p *page) wait(pause time.Duration, stop, free, changed <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-p.woken:
	case <-stop:
	case <-free:
	case <-changed:
	case <-timer.C:
	}
}

// nextTurn is when something is due without an event.
func (p *page) nextTurn(now time.Time, wake time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.extendAt
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if wake > 0 {
		earlier(now.Add(wake))
	}
	if p.first > p.settled && p.attempts <= 1 {
		earlier(p.settledAt.Add(settleEvery))
	}
	if p.stopping {
		earlier(p.abandonAt)
		if now.Before(p.abortAt) {
			earlier(p.abortAt)
		}
	}
	for u := range p.units {
		if !u.hung {
			earlier(u.hangsAt(p.hungAfter()))
		}
	}
	return max(next.Sub(now), 0)
}

// advance settles and renews what is due, and reports whether the page is over.
func (p *page) advance(ctx context.Context, now time.Time) (result string, over bool) {
	p.mu.Lock()
	first, windowEnds := p.first, p.first >= p.limit && !p.stopping
	p.mu.Unlock()
	switch {
	case first == len(p.messages):
		return p.settle(ctx, first), true
	case windowEnds, first > p.settled && p.attempts <= 1 && now.Sub(p.settledAt) >= settleEvery:
		if result := p.settle(ctx, first); result == Lost || result == "" {
			return result, true
		}
		p.reopen()
	}
	if now.Before(p.extendAt) {
		return "", false
	}
	holds, err := p.reader.Extend(context.WithoutCancel(ctx), p.token)
	switch {
	case err == nil && !holds, err != nil && time.Now().After(p.expires):
		p.logger.LogAttrs(ctx, slog.LevelWarn, "the lease of a page was lost", slog.Any("error", err))
		return Lost, true
	case err != nil:
		p.extendAt = time.Now().Add(extendAgain)
	default:
		p.renewed(now)
	}
	return "", false
}

func (p *page) renewed(at time.Time) {
	p.expires = at.Add(p.Lease)
	p.extendAt = at.Add(p.Lease / 3)
}

// settle settles all messages before a place, and parks those of them that failed. Messages that share a number, which
// a producer can make, are settled together.
func (p *page) settle(ctx context.Context, end int) (result string) {
	upto := p.upto
	if end < len(p.messages) {
		for end > p.settled && p.messages[end-1].Seq == p.messages[end].Seq {
			end--
		}
		if end == p.settled {
			p.settledAt = time.Now()
			return Settled
		}
		upto = p.messages[end-1].Seq
	}
	failed := p.failures(end)
	start := time.Now()
	err := p.insist(ctx, func(ctx context.Context) (err error) {
		start = time.Now()
		result, err = p.reader.Settle(ctx, p.token, upto, failed)
		return err
	})
	if err != nil {
		return ""
	}
	if result == Repeated && end == len(p.messages) {
		return "" // whether the batch has ended is not known: the lane is given back
	}
	if result == Lost {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "the lease of a page was lost")
		return Lost
	}
	p.settled, p.settledAt = end, start
	p.attempts = max(p.attempts-1, 1) // as settle does
	if result == Repeated {           // an earlier call renewed the lease, nobody knows when
		p.extendAt = start
		return Settled
	}
	p.renewed(start)
	return result
}

// failures are those of the messages that a settle passes.
func (p *page) failures(end int) (failed []Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.settled; i < end; i++ {
		f := p.messages[i].failed
		if f != nil && (len(failed) == 0 || failed[len(failed)-1].Seq != f.Seq) {
			failed = append(failed, *f)
		}
	}
	return failed
}

// dispatch hands out what is ready. If it cannot, it returns what to wait for.
func (p *page) dispatch(now time.Time) (free, changed <-chan struct{}, wake time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		taken, free := p.places.take()
		if !taken {
			if p.waiting(now) == 0 {
				free = nil
			}
			return free, nil, 0
		}
		u, changed, wake := p.next(now)
		if u == nil {
			p.places.give()
			return nil, changed, wake
		}
		go p.serve(u)
	}
}

// waiting is how many of those that are ready may be handed out.
func (p *page) waiting(now time.Time) int {
	if p.stopping && !now.Before(p.abortAt) {
		return 0
	}
	return p.readyBefore(p.limit)
}

// next takes what is to be handed out next. If there is nothing, it returns what to wait for.
func (p *page) next(now time.Time) (u *unit, changed <-chan struct{}, wake time.Duration) {
	n := p.waiting(now)
	if n == 0 {
		return nil, nil, 0
	}
	ok, probe, wake, changed := p.rest.admit()
	if !ok {
		return nil, changed, wake
	}
	if probe {
		n = 1
	}
	n = p.handlers.Unit(p.ready[:n])
	u = &unit{rows: slices.Clone(p.ready[:n])}
	u.probe.Store(probe)
	u.begins()
	p.ready = slices.Delete(p.ready, 0, n)
	p.units[u] = true
	for _, row := range u.rows {
		p.high = max(p.high, row.Place+1)
		p.messages[row.Place].unit = u
	}
	return u, nil, 0
}

// serve handles a unit, and then others for as long as the page has some, in the place that was taken.
func (p *page) serve(u *unit) {
	defer p.places.give()
	defer func() { // also if a handler ends its goroutine
		if u != nil {
			p.finish(u, time.Now(), false)
		}
	}()
	for since := time.Now(); u != nil; {
		p.handlers.Handle(u.rows, u.begins, func(row *workqueue.ExternalRow) {
			end := row.End()
			p.rest.note(u.probe.Swap(false), end)
			p.end(u, row.Place, end)
		})
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
		next, _, _ = p.next(now)
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
	p.messages[place].unit = nil
	f := Failure{Error: end.Error, Delay: Seconds(end.Delay)}
	switch end.Outcome {
	case workqueue.RowUnavailable, workqueue.RowReleased: // the message has not ended
		p.makeReady(place)
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
		m := &p.messages[place]
		p.logger.LogAttrs(context.Background(), slog.LevelInfo, "message was cancelled by its handler",
			slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", end.Error))
	}
	m := &p.messages[place]
	m.ended = true
	if m.next != nil {
		p.makeReady(m.next.place)
	}
}

// passEnded moves on to the first message that has not ended, and wakes run if all that may be handed out have.
func (p *page) passEnded() {
	for p.first < len(p.messages) && p.messages[p.first].ended {
		p.first++
	}
	if p.first >= p.limit {
		p.wake()
	}
}

// fail has a message parked. The rest of its key is parked with it.
func (p *page) fail(place int, f Failure) {
	m := &p.messages[place]
	f.Seq = m.Seq
	m.failed = &f
	for ; m != nil; m = m.next {
		m.ended = true
	}
}

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
		p.rest.note(u.probe.Swap(false), workqueue.ExternalEnd{Outcome: workqueue.RowAbandoned, Error: reason})
		for _, row := range u.rows {
			m := &p.messages[row.Place]
			if m.unit != u {
				continue
			}
			p.logger.LogAttrs(context.Background(), slog.LevelError, "message is parked because its handler hangs",
				slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", reason))
			p.fail(row.Place, Failure{Error: reason, Delay: Seconds(p.Backoff.Delay(1))})
			row.Cancel(workqueue.ErrLeaseLost) // a call that fails is not halved any more
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
	return !now.Before(p.abandonAt) || !p.isRunning() && (p.waiting(now) == 0 || p.rest.isAway())
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
		if result := p.settle(ctx, end); result == Ended || result == Lost {
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
			p.giveUp()
			return
		}
		p.wait(time.Until(end), nil, nil, nil)
	}
}

// giveUp waits for no handler any more, not for what a probe finds out either.
func (p *page) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for u := range p.units {
		p.rest.note(u.probe.Swap(false), workqueue.ExternalEnd{Outcome: workqueue.RowReleased})
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
