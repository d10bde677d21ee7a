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
	ended  bool     // handled, or to be parked
	failed *Failure
}

// A page is what the relay has in hand of a lane. Its messages are handled at once, those of a key one after the other.
// What has ended is settled from the beginning. One goroutine owns it.
type page struct {
	*hand
	messages []message
	upto     int64
	ready    []*workqueue.ExternalRow // whose key is free, in their order
	units    map[*unit]bool
	events   events

	first     int // all messages before have ended
	settled   int // all before are settled
	limit     int // all from here on are not handed out
	high      int // the last one that was handed out, plus 1
	settledAt time.Time
	extendAt  time.Time

	stopping  bool
	abortAt   time.Time // when the contexts of handlers are cancelled
	abandonAt time.Time // when nobody waits for them any more
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
		events: events{signal: make(chan struct{}, 1)}, settledAt: now, extendAt: h.expires.Add(-h.Lease * 2 / 3)}
	last := map[string]*message{}
	for i := range read.Messages {
		m := &p.messages[i]
		m.Read, m.place = &read.Messages[i], i
		if before := last[m.Key]; before != nil {
			before.next = m
		} else {
			p.makeReady(i)
		}
		if m.HasKey {
			last[m.Key] = m
		}
	}
	p.open()
	return p
}

// open lets the next messages be handed out.
func (p *page) open() { p.limit = min(p.first+p.window(p.attempts), len(p.messages)) }

// makeReady puts a message in its place among those that are ready.
func (p *page) makeReady(place int) {
	row := p.handlers.Take(place, p.messages[place].Read)
	at, _ := slices.BinarySearchFunc(p.ready, place, func(r *workqueue.ExternalRow, place int) int { return r.Place - place })
	p.ready = slices.Insert(p.ready, at, row)
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
}

// run works on the page, and returns what the settle of its end answered; "" if it was left before, because ctx was
// cancelled.
func (p *page) run(ctx context.Context) (result string) {
	defer p.leave()
	stop := ctx.Done()
	for {
		p.collect()
		now := time.Now()
		if stop != nil && ctx.Err() != nil {
			stop = nil
			p.beginStop(now)
		}
		p.abandonHung(now)
		if result, over := p.advance(ctx, now); over {
			return result
		}
		if p.stopping && p.hasStopped(now) {
			return p.settleRest(ctx)
		}
		free, changed, wake := p.dispatch(now)
		p.wait(p.nextTurn(now, wake), stop, free, changed)
	}
}

// wait waits for whatever comes first.
func (p *page) wait(pause time.Duration, stop, free, changed <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-p.events.signal:
	case <-stop:
	case <-free:
	case <-changed:
	case <-timer.C:
	}
}

// nextTurn is when something is due without an event.
func (p *page) nextTurn(now time.Time, wake time.Duration) time.Duration {
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
	for p.first < len(p.messages) && p.messages[p.first].ended {
		p.first++
	}
	switch {
	case p.first == len(p.messages):
		return p.settle(ctx, p.first), true
	case p.first >= p.limit && !p.stopping, // of a window
		p.first > p.settled && p.attempts <= 1 && now.Sub(p.settledAt) >= settleEvery:
		if result := p.settle(ctx, p.first); result == Lost || result == "" {
			return result, true
		}
		if !p.stopping {
			p.open()
		}
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
	var failed []Failure
	for i := p.settled; i < end; i++ {
		f := p.messages[i].failed
		if f != nil && (len(failed) == 0 || failed[len(failed)-1].Seq != f.Seq) {
			failed = append(failed, *f)
		}
	}
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
	p.renewed(start)
	return result
}

// dispatch hands out what is ready. If it cannot, it returns what to wait for.
func (p *page) dispatch(now time.Time) (free, changed <-chan struct{}, wake time.Duration) {
	for {
		n, _ := slices.BinarySearchFunc(p.ready, p.limit, func(r *workqueue.ExternalRow, place int) int {
			return r.Place - place
		})
		if n == 0 || p.stopping && !now.Before(p.abortAt) {
			return nil, nil, 0
		}
		ok, probe, wake, changed := p.rest.admit()
		if !ok {
			return nil, changed, wake
		}
		taken, free := p.places.take()
		if !taken {
			if probe {
				p.rest.giveUp()
			}
			return free, nil, 0
		}
		if probe {
			n = 1
		}
		p.start(p.handlers.Unit(p.ready[:n]), probe)
	}
}

// start hands out the first rows that are ready.
func (p *page) start(n int, probe bool) {
	u := &unit{rows: slices.Clone(p.ready[:n])}
	u.probe.Store(probe)
	u.begins()
	p.ready = slices.Delete(p.ready, 0, n)
	p.units[u] = true
	for _, row := range u.rows {
		p.high = max(p.high, row.Place+1)
	}
	go func() {
		defer p.places.give()
		defer p.events.add(event{unit: u})
		p.handlers.Handle(u.rows, u.begins, func(row *workqueue.ExternalRow) {
			end := row.End()
			p.rest.note(u.probe.Swap(false), end)
			p.events.add(event{u, row, end})
		})
	}()
}

// processStart is the epoch of a monotonic clock.
var processStart = time.Now()

func (u *unit) begins() { u.began.Store(int64(time.Since(processStart))) }

func (u *unit) hangsAt(after time.Duration) time.Time {
	return processStart.Add(time.Duration(u.began.Load()) + after)
}

// An event is the end of a message, or, without one, of the unit.
type event struct {
	unit *unit
	row  *workqueue.ExternalRow
	end  workqueue.ExternalEnd
}

// events are those that the page has not taken yet. Nobody waits who adds one.
type events struct {
	mu     sync.Mutex
	list   []event
	signal chan struct{}
}

func (e *events) add(one event) {
	e.mu.Lock()
	e.list = append(e.list, one)
	e.mu.Unlock()
	select {
	case e.signal <- struct{}{}:
	default:
	}
}

func (e *events) take() (all []event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.list = e.list, nil
	return all
}

// collect takes in what has ended.
func (p *page) collect() {
	for _, e := range p.events.take() {
		switch {
		case e.row == nil:
			delete(p.units, e.unit)
		case !e.unit.hung:
			p.end(e.row.Place, e.end)
		}
	}
}

// end takes in the end of a message.
func (p *page) end(place int, end workqueue.ExternalEnd) {
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
			if m.ended {
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
	p.stopping = true
	p.limit = p.high
	p.abortAt = now.Add(p.ShutdownTimeout)
	p.abandonAt = p.abortAt.Add(p.abortGrace())
}

// hasStopped reports whether nothing is left to wait for.
func (p *page) hasStopped(now time.Time) bool {
	aborts := !now.Before(p.abortAt)
	if aborts {
		p.cancel(workqueue.ErrShutdown)
	}
	if !now.Before(p.abandonAt) {
		return true
	}
	running := slices.ContainsFunc(unitsOf(p.units), func(u *unit) bool { return !u.hung })
	waits := len(p.ready) > 0 && p.ready[0].Place < p.limit && !aborts && !p.rest.isAway()
	return !running && !waits
}

func unitsOf(m map[*unit]bool) (all []*unit) {
	for u := range m {
		all = append(all, u)
	}
	return all
}

// settleRest settles all that has ended when the relay stops. What lies before and has not ended is parked, so that
// nothing is repeated but what was broken off.
func (p *page) settleRest(ctx context.Context) string {
	end := p.first
	for i := range p.messages {
		if p.messages[i].ended {
			end = max(end, i+1)
		}
	}
	running := map[int]bool{}
	for u := range p.units {
		u.hung = true // nobody waits any more
		for _, row := range u.rows {
			running[row.Place] = true
		}
	}
	for i := range p.messages[:end] {
		if p.messages[i].ended {
			continue
		}
		f := Failure{Error: workqueue.ErrShutdown.Error(), Outcome: "snooze"}
		if running[i] {
			f.Delay = Seconds(p.Lease)
		}
		p.fail(i, f)
	}
	if end > p.settled || len(p.messages) == 0 {
		if result := p.settle(ctx, end); result == Ended || result == Lost {
			return result
		}
	}
	return ""
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
	p.cancel(workqueue.ErrLeaseLost)
	end := time.Now().Add(p.abortGrace())
	for {
		p.collect()
		pause := time.Until(end)
		if pause <= 0 || !slices.ContainsFunc(unitsOf(p.units), func(u *unit) bool { return !u.hung }) {
			return
		}
		p.wait(pause, nil, nil, nil)
	}
}
