package workqueue

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/header"
)

// A row that has lost a lease is a suspect: it may have ended its process. For a while it runs beside few others only,
// fewer with each lease that it loses together with others, so that it takes few with it if it does so again, and is
// soon the only one. The lease that it then loses is its own fault.
//
// The width falls so fast that a row which ends every process is alone after three deaths, while each of its neighbours
// has lost three leases at most: less than [MaxReturns]. And it begins so high that the many rows which an outage or a
// kill has made suspects run at nearly the usual concurrency. A process that dies once more takes only 16 along.
const (
	widthOnce  = 16
	widthTwice = 4
	widthAlone = 1
)

const (
	// suspicion is how long a row is a suspect after its first lost lease; twice as long after each further one.
	suspicion = time.Hour
	// narrowTime is how long the others make room after the first lost lease; twice as long after each further one.
	narrowTime = 10 * time.Second
	// narrowWait is how long a suspect waits until few enough rows are in flight. Then it starts all the same, and for
	// as long again others do: their neighbours run long.
	narrowWait = 5 * time.Second
	// maxLost bounds the doubling.
	maxLost = 5
)

// suspected reports whether a row is a suspect, how many rows may be in flight beside it, itself included, and for how
// long they make room.
func (w *Worker) suspected(d *delivery) (width int, narrow time.Duration, is bool) {
	at, marked := d.Headers[header.LostAt]
	if !marked {
		return 0, 0, false
	}
	last, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0, 0, false
	}
	alone, together := lostCount(d.Headers[header.LostAlone]), lostCount(d.Headers[header.LostTogether])
	doublings := max(alone+together, 1) - 1
	if w.dbClock.of(time.Now()).Sub(last) >= suspicion<<doublings {
		return 0, 0, false
	}
	switch {
	case alone > 0 || together > 2:
		width = widthAlone
	case together == 2:
		width = widthTwice
	default:
		width = widthOnce
	}
	return width, narrowTime << doublings, true
}

func lostCount(header string) int {
	n, _ := strconv.ParseUint(header, 10, 16) // producers may write any header
	return int(min(n, maxLost))
}

// A narrowing keeps the rows in flight of a runtime few while suspects are among them.
type narrowing struct {
	active atomic.Bool  // suspects may not be empty
	claims atomic.Int32 // under way

	mu       sync.Mutex
	workers  []*Worker
	suspects []suspect   // in flight
	waiting  []*delivery // the rows with suspects of one claim that have not started
	reserved int         // the width of a suspect that was put back for want of room, 0 without one
	since    time.Time   // when they began to wait, or it was put back
	rest     time.Time   // until then none waits, and none narrows
	timer    *time.Timer // of the next turn that nothing else causes
}

type suspect struct {
	*delivery
	width int
	until time.Time
}

func (n *narrowing) join(w *Worker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers = append(n.workers, w)
}

func (n *narrowing) leave(w *Worker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers = slices.DeleteFunc(n.workers, func(o *Worker) bool { return o == w })
	n.suspects = slices.DeleteFunc(n.suspects, func(s suspect) bool { return s.worker == w })
	n.arm(time.Now())
}

// claiming begins a claim of at most so many rows. It returns how many there is room for; if there is none, the claim
// has not begun.
func (n *narrowing) claiming(want int) int {
	n.claims.Add(1) // before it asks: suspects that begin to wait now see the claim, or it sees them
	if want = min(want, n.room()); want == 0 {
		n.claims.Add(-1)
	}
	return want
}

// claimed ends a claim. Its rows, if any, have been admitted or put back.
func (n *narrowing) claimed(rows int) {
	n.claims.Add(-1)
	if n.active.Load() {
		n.turn(rows == 0)
	}
}

// admit decides which claimed rows, already in flight, may start: the first ones that the width has room for. The
// others are to be put back, and keep their place. Suspects wait until those have been, and until other claims have
// ended, so that none of these rows is lost with a suspect which ends the process at once. If the first row is a
// suspect for which there is no room, it is put back, too, with what no handler has begun, and room for it is reserved:
// until there is some no worker claims. Claimed, it would be lost with a row in flight that ends the process.
func (n *narrowing) admit(w *Worker, deliveries []*delivery) (admitted, back []*delivery, most int) {
	isMarked := func(d *delivery) bool { _, marked := d.Headers[header.LostAt]; return marked }
	if !n.active.Load() && !slices.ContainsFunc(deliveries, isMarked) {
		return deliveries, nil, math.MaxInt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	width := n.width(now)
	n.active.Store(true) // before the rows are counted: a worker that does not see it has added its own by now
	defer n.arm(now)
	inFlight := n.inFlight() - len(deliveries)
	most = math.MaxInt
	known := len(n.suspects)
	stays := len(deliveries)
	if n.waiting != nil {
		stays = 0
	}
	for i, d := range deliveries[:stays] {
		own, narrow, is := w.suspected(d)
		if is = is && !now.Before(n.rest); is {
			most = min(most, own)
			own = min(own, width)
		} else {
			own = width
		}
		if inFlight+i >= own {
			stays = i
			if is && i == 0 {
				n.reserve(own, now)
			}
			break
		}
		n.reserved = 0
		if is {
			width = own
			n.suspects = append(n.suspects, suspect{d, own, now.Add(narrow)})
		}
	}
	admitted, back = deliveries[:stays], deliveries[stays:]
	if len(n.suspects) > known && (len(back) > 0 || n.claims.Load() > 1) {
		n.waiting, n.since = admitted, now
		w.flow.aside(len(admitted))
		admitted = nil
	}
	w.flow.aside(len(back))
	return admitted, back, most
}

// reserve keeps room for a suspect that is put back, and puts back what no handler has begun.
func (n *narrowing) reserve(width int, now time.Time) {
	if n.reserved == 0 {
		n.since = now
	}
	n.reserved = width
	for _, w := range n.workers {
		w.flow.empty(w.release)
	}
}

// width is how many rows may be in flight.
func (n *narrowing) width(now time.Time) int {
	n.suspects = slices.DeleteFunc(n.suspects, func(s suspect) bool {
		return !now.Before(s.until) || !s.worker.inFlight.has(s.delivery)
	})
	width := math.MaxInt
	if n.reserved > 0 {
		width = n.reserved
	}
	for _, s := range n.suspects {
		width = min(width, s.width)
	}
	return width
}

func (n *narrowing) inFlight() (sum int) {
	for _, w := range n.workers {
		sum += w.inFlight.count()
	}
	return sum
}

// room is how many rows may be claimed.
func (n *narrowing) room() int {
	if !n.active.Load() {
		return math.MaxInt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	width := n.width(time.Now())
	if n.waiting != nil {
		return 0
	}
	return max(width-n.inFlight(), 0)
}

// turn starts the rows that wait, if few enough are in flight or they have waited long enough, and lets the workers
// look for room. A reservation ends as well if there was room for a claim, and it was idle: others have the suspect.
func (n *narrowing) turn(idle bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	width := n.width(now)
	if n.reserved > 0 {
		switch roomy := n.inFlight() < width; {
		case !roomy && now.Sub(n.since) >= narrowWait:
			n.rest = now.Add(narrowWait)
			n.suspects, n.reserved = nil, 0
		case roomy && (idle || now.Sub(n.since) >= narrowWait):
			n.reserved = 0
		}
	}
	if ds := n.waiting; ds != nil {
		overdue := now.Sub(n.since) >= narrowWait
		if overdue {
			n.rest = now.Add(narrowWait)
			n.suspects = nil
		}
		if overdue || n.inFlight() <= width && n.claims.Load() == 0 {
			n.waiting = nil
			ds[0].worker.flow.next(ds)
		}
	}
	for _, w := range n.workers {
		w.flow.signal()
	}
	n.arm(now)
}

// arm sets the timer for the next turn.
func (n *narrowing) arm(now time.Time) {
	n.active.Store(len(n.suspects) > 0 || n.waiting != nil || n.reserved > 0)
	var next time.Time
	if n.waiting != nil || n.reserved > 0 {
		next = n.since.Add(narrowWait)
	}
	for _, s := range n.suspects {
		if next.IsZero() || s.until.Before(next) {
			next = s.until
		}
	}
	switch {
	case next.IsZero() && n.timer != nil:
		n.timer.Stop()
	case next.IsZero():
	case n.timer == nil:
		n.timer = time.AfterFunc(next.Sub(now), func() { n.turn(false) })
	default:
		n.timer.Reset(next.Sub(now))
	}
}

// withdraw returns the worker's rows that wait.
func (n *narrowing) withdraw(w *Worker) (ds []*delivery) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting != nil && n.waiting[0].worker == w {
		ds, n.waiting = n.waiting, nil
	}
	return ds
}

// left takes deliveries out of flight.
func (w *Worker) left(ds ...*delivery) {
	w.inFlight.remove(ds...)
	if w.system != nil && w.system.narrowing.active.Load() {
		w.system.narrowing.turn(false)
	}
}

// aside counts deliveries as running that no handler takes.
func (f *flow) aside(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running += n
}

// next gives deliveries that were put aside to the next handlers.
func (f *flow) next(ds []*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running -= len(ds)
	f.queue = slices.Insert(f.queue, 0, ds...)
	f.ready.Broadcast()
}

// claimAtMost makes the next claim small, because more rows than that could not start.
func (f *flow) claimAtMost(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = min(f.limit, n)
}

// empty releases what no handler has begun, in a goroutine beside the handlers.
func (f *flow) empty(release func([]*delivery)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.spawn != nil && len(f.queue) > 0 {
		rest := f.cut(0)
		f.spawn(func() { release(rest) })
	}
}
