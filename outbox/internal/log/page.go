package log

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/outage"
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
	before *message // of its key
	next   *message // of its key
	unit   *unit    // that has it
	ended  bool     // handled, or to be parked
	failed *Failure
	last   workqueue.ExternalEnd // of its handler
}

// settlesAlone reports whether the message has ended, other than because of one before it in its key.
func (m *message) settlesAlone() bool {
	return m.failed != nil || m.ended && m.passed().End.Outcome != workqueue.RowLeft
}

// A Passed is a message that a settle passes, and what became of it.
type Passed struct {
	*Read
	End workqueue.ExternalEnd
}

// passed is what has become of the message. One that is parked because of others, or to be ended by who runs parked
// messages, is left to those.
func (m *message) passed() Passed {
	end := m.last
	switch {
	case m.failed == nil && end.Outcome != workqueue.RowAcked && end.Outcome != workqueue.RowCancelled,
		m.failed != nil && m.failed.Outcome == "fail":
		end = workqueue.ExternalEnd{Outcome: workqueue.RowLeft, Error: end.Error}
	case m.failed != nil && m.failed.Outcome == "snooze":
		end = workqueue.ExternalEnd{Outcome: workqueue.RowSnoozed, Delay: time.Duration(m.failed.Delay),
			Error: m.failed.Error}
	case m.failed != nil:
		end = workqueue.ExternalEnd{Outcome: workqueue.RowAbandoned, Delay: time.Duration(m.failed.Delay),
			Error: m.failed.Error}
	}
	return Passed{m.Read, end}
}

// A page is what the relay has in hand of a lane. Its messages are handled at once, those of a key one after the other,
// or as a run in one batch. What has ended is settled from the beginning.
//
// One goroutine, that of run, settles, renews and watches. Those of handlers take what is ready by themselves, and wake
// it when there is something to do for it.
type page struct {
	*hand
	upto  int64
	since *time.Time // it is the probe of a destination that is unavailable since then
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
	away     bool      // the destination is unavailable: nothing more is handed out
	cause    string

	// Of run only.
	settled   int // all before are settled
	settledAt time.Time
	extendAt  time.Time
	abandonAt time.Time // when nobody waits for handlers any more
}

// newPage makes a page. The first message of each key is ready, and so are those without one.
func newPage(h *hand, read Page) *page {
	now := time.Now()
	p := &page{hand: h, messages: make([]message, len(read.Messages)), upto: read.Upto, since: read.UnavailableSince,
		units: map[*unit]bool{}, woken: make(chan struct{}, 1), settledAt: now,
		extendAt: h.expires.Add(-h.Lease * 2 / 3)}
	last := map[string]*message{}
	for i := range read.Messages {
		m := &p.messages[i]
		m.Read, m.place = &read.Messages[i], i
		before := last[m.Key]
		if m.HasKey {
			last[m.Key] = m
		}
		if m.HasKey && before != nil {
			m.before, before.next = before, m
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
	reason := fmt.Sprintf("%d consumers of the batch have died, or could not settle it, the last of them with this "+
		"message alone in hand", p.attempts-1)
	p.logger.LogAttrs(context.Background(), slog.LevelError, "message is parked because its consumers die",
		slog.String("topic", m.Topic), slog.String("id", m.ID.String()), slog.String("error", reason))
	p.ready = slices.DeleteFunc(p.ready, func(r *workqueue.ExternalRow) bool { return r.Place == 0 })
	p.fail(0, Failure{Error: reason, Delay: Seconds(p.Backoff.Delay(p.attempts))})
	p.passEnded()
}

// refused is the result of a page whose settle was refused until its lease ended. Its lane is not given back, so that
// the claim counts as one whose consumer has died: the next one hands out half as many messages, and nobody begins
// before the lease ends.
const refused = "refused"

// run works on the page, and returns what the settle of its end answered; "" if it was left before, because ctx was
// cancelled, or the database did not answer.
func (p *page) run(ctx context.Context) (result string) {
	p.pages.Store(p, nil)
	defer p.pages.Delete(p)
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
		if p.isAway() {
			return p.rest(ctx)
		}
		if p.hasStopped(now) {
			return p.settleRest(ctx)
		}
		p.wait(p.nextTurn(now), stop, p.dispatch(now))
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
func (p *page) wait(pause time.Duration, stop, free <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-p.woken:
	case <-stop:
	case <-free:
	case <-timer.C:
	}
}

// nextTurn is when something is due without an event.
func (p *page) nextTurn(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.extendAt
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
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
		return p.settle(ctx, first, false), true
	case windowEnds, first > p.settled && p.attempts <= 1 && now.Sub(p.settledAt) >= settleEvery:
		if result := p.settle(ctx, first, false); result != Settled && result != Ended {
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

// settle settles all messages before a place, and those that have ended behind it if it is told to, and parks those of
// them that failed. Messages that share a number, which a producer can make, are settled together.
func (p *page) settle(ctx context.Context, end int, withAhead bool) (result string) {
	upto := p.upto
	if end < len(p.messages) {
		for end > p.settled && p.messages[end-1].Seq == p.messages[end].Seq {
			end--
		}
		upto = 0 // as before
		if end > 0 {
			upto = p.messages[end-1].Seq
		}
	}
	failed, passed, ahead := p.passed(end, withAhead)
	if end == p.settled && end < len(p.messages) && len(ahead) == 0 {
		p.settledAt = time.Now()
		return Settled
	}
	start := time.Now()
	err := p.insist(ctx, func(ctx context.Context) error {
		return p.handlers.Settle(ctx, passed, func(ctx context.Context) (held bool, err error) {
			start = time.Now()
			result, err = p.reader.Settle(ctx, p.token, upto, failed, ahead)
			return result != Lost, err
		})
	})
	switch {
	case err == nil:
	case outage.Is(err) || ctx.Err() != nil:
		return ""
	default:
		p.logger.LogAttrs(ctx, slog.LevelError, "a page was not settled within its lease and is repeated in parts",
			slog.Int("messages", end-p.settled), slog.Int("attempts", p.attempts), slog.Any("error", err))
		return refused
	}
	if result == Repeated && end == len(p.messages) {
		return "" // whether the batch has ended is not known: the lane is given back
	}
	if result == Lost {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "the lease of a page was lost")
		return Lost
	}
	p.tellAvailable(ctx, failed)
	p.settled, p.settledAt = end, start
	p.attempts = max(p.attempts-1, 1) // as settle does
	if result == Repeated {           // an earlier call renewed the lease, nobody knows when
		p.extendAt = start
		return Settled
	}
	p.renewed(start)
	return result
}

// passed are the messages that a settle passes, the failures among them, and the numbers behind the place.
func (p *page) passed(end int, withAhead bool) (failed []Failure, passed []Passed, ahead []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed = make([]Passed, 0, end-p.settled)
	for i := p.settled; i < len(p.messages); i++ {
		if i >= end && (!withAhead || !p.messages[i].settlesAlone() || p.sharesNumber(i)) {
			continue
		}
		if i >= end {
			ahead = append(ahead, p.messages[i].Seq)
		}
		passed = append(passed, p.messages[i].passed())
		f := p.messages[i].failed
		if f != nil && (len(failed) == 0 || failed[len(failed)-1].Seq != f.Seq) {
			failed = append(failed, *f)
		}
	}
	return failed, passed, ahead
}

// sharesNumber reports whether a message has the number of one of its neighbours.
func (p *page) sharesNumber(i int) bool {
	return i > 0 && p.messages[i-1].Seq == p.messages[i].Seq ||
		i+1 < len(p.messages) && p.messages[i+1].Seq == p.messages[i].Seq
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
