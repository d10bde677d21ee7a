package flow

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A row that has lost a lease is a suspect: it may have ended its process. For a while it runs beside few others only,
// fewer with each lease that it loses together with others, so that it takes few with it if it does so again, and is
// soon the only one. The lease that it then loses is its own fault.
//
// The width falls so fast that a row which ends every process is alone after three deaths, while each of its neighbours
// has lost three leases at most: fewer than a row may lose without an attempt. And it begins so high that the many rows
// which an outage or a kill has made suspects run at nearly the usual concurrency. A process that dies once more takes
// only 16 along.
const (
	widthOnce  = 16
	widthTwice = 4
	widthAlone = 1
)

const (
	// suspicion is how long a row is a suspect after its first lost lease; twice as long after each further one.
	suspicion = time.Hour
	// isolationTime is how long the others make room after the first lost lease; twice as long after each further one.
	isolationTime = 10 * time.Second
	// isolationWait is how long a suspect waits until few enough rows are in flight. Then it starts all the same, and
	// for as long again others do: their neighbours run long.
	isolationWait = 5 * time.Second
	// maxLost bounds the doubling.
	maxLost = 5
)

// Losses are the leases that a row has lost.
type Losses struct {
	Alone, Together int           // by itself, and together with others of its process
	Ago             time.Duration // since the last one
}

// Suspect reports whether the row is a suspect, how many rows may be in flight beside it, itself included, and for how
// long they make room.
func (p *Place) Suspect() (width int, others time.Duration, is bool) {
	lost := p.Lost
	if lost == nil {
		return 0, 0, false
	}
	alone, together := min(lost.Alone, maxLost), min(lost.Together, maxLost)
	doublings := max(alone+together, 1) - 1
	if lost.Ago >= suspicion<<doublings {
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
	return width, isolationTime << doublings, true
}

// An Isolation keeps the rows in flight in several buffers few while suspects are among them. The zero value is usable.
type Isolation[R Row] struct {
	active atomic.Bool  // suspects may not be empty
	claims atomic.Int32 // under way

	mu       sync.Mutex
	buffers  []*Buffer[R]
	suspects []suspect[R] // in flight
	waiting  []R          // the rows with suspects of one claim that have not started
	waitsIn  *Buffer[R]   // whose rows they are
	reserved int          // the width of a suspect that was put back for want of room, 0 without one
	since    time.Time    // when the waiting rows began to wait, or the suspect was put back
	rest     time.Time    // until then no suspect waits, and none makes others wait
	timer    *time.Timer  // of the next turn that nothing else causes
}

type suspect[R Row] struct {
	row    R
	buffer *Buffer[R]
	width  int
	until  time.Time
}

// Join makes the isolation count a buffer's rows in flight. It is called before the first Await.
func (i *Isolation[R]) Join(b *Buffer[R], rows InFlight[R]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	b.isolation, b.inFlight = i, rows
	i.buffers = append(i.buffers, b)
}

// Leave forgets a buffer. Others have its room.
func (i *Isolation[R]) Leave(b *Buffer[R]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.buffers = slices.DeleteFunc(i.buffers, func(o *Buffer[R]) bool { return o == b })
	i.suspects = slices.DeleteFunc(i.suspects, func(s suspect[R]) bool { return s.buffer == b })
	i.arm(time.Now())
	i.signal()
}

// Settled lets others start in the place of rows that are in flight no longer. A nil buffer has no others.
func (b *Buffer[R]) Settled() {
	if b != nil && b.isolation != nil && b.isolation.active.Load() {
		b.isolation.turn(false)
	}
}

// beginClaim begins a claim of at most so many rows. It returns how many there is room for; if there is none, the claim
// has not begun.
func (i *Isolation[R]) beginClaim(want int) int {
	if i == nil {
		return want
	}
	i.claims.Add(1) // before it asks: suspects that begin to wait now see the claim, or it sees them
	if want = min(want, i.room()); want == 0 {
		i.endClaim(false) // suspects may have waited for the end of this one
	}
	return want
}

// endClaim ends a claim, which found nothing or whose rows have been admitted or put back.
func (i *Isolation[R]) endClaim(foundNothing bool) {
	if i == nil {
		return
	}
	i.claims.Add(-1)
	if i.active.Load() {
		i.turn(foundNothing)
	}
}

// admit decides which claimed rows, already in flight, may start: the first ones that the width has room for. The
// others are to be put back, and keep their place. lost tells whether one of the rows has lost a lease: otherwise none
// is a suspect.
//
// Suspects wait until the others have been put back and other claims have ended, so that none of these rows is lost
// with a suspect that ends the process at once.
//
// If the first row is a suspect for which there is no room, it is put back as well, with what no handler has begun, and
// room for it is reserved: until there is some, no worker claims. Kept, it would be lost with a row in flight that ends
// the process.
func (i *Isolation[R]) admit(b *Buffer[R], rows []R, lost bool) (admitted, back []R, most int) {
	if i == nil || !i.active.Load() && !lost {
		return rows, nil, math.MaxInt
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	width := i.width(now)
	i.active.Store(true) // before the rows are counted: a worker that does not see it has added its own by now
	defer i.arm(now)
	inFlight := i.inFlight() - len(rows)
	most = math.MaxInt
	known := len(i.suspects)
	stays := len(rows)
	if i.waiting != nil {
		stays = 0
	}
	for at, row := range rows[:stays] {
		own, others, is := row.Place().Suspect()
		if is = is && !now.Before(i.rest); is {
			most = min(most, own)
			own = min(own, width)
		} else {
			own = width
		}
		if inFlight+at >= own {
			stays = at
			if is && at == 0 {
				i.reserve(own, now)
			}
			break
		}
		i.reserved = 0
		if is {
			width = own
			i.suspects = append(i.suspects, suspect[R]{row, b, own, now.Add(others)})
		}
	}
	admitted, back = rows[:stays], rows[stays:]
	if len(i.suspects) > known && (len(back) > 0 || i.claims.Load() > 1) {
		i.waiting, i.waitsIn, i.since = admitted, b, now
		b.withhold(len(admitted))
		admitted = nil
	}
	b.withhold(len(back))
	return admitted, back, most
}

// reserve keeps room for a suspect that is put back, and puts back what no handler has begun.
func (i *Isolation[R]) reserve(width int, now time.Time) {
	if i.reserved == 0 {
		i.since = now
	}
	i.reserved = width
	for _, b := range i.buffers {
		b.releaseAll()
	}
}

// width forgets suspects that have ended, or run long enough, and returns how many rows may be in flight.
func (i *Isolation[R]) width(now time.Time) int {
	i.suspects = slices.DeleteFunc(i.suspects, func(s suspect[R]) bool {
		return !now.Before(s.until) || !s.buffer.inFlight.Has(s.row)
	})
	width := math.MaxInt
	if i.reserved > 0 {
		width = i.reserved
	}
	for _, s := range i.suspects {
		width = min(width, s.width)
	}
	return width
}

func (i *Isolation[R]) inFlight() (sum int) {
	for _, b := range i.buffers {
		sum += b.inFlight.Count()
	}
	return sum
}

// room is how many rows may be claimed.
func (i *Isolation[R]) room() int {
	if i == nil || !i.active.Load() {
		return math.MaxInt
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	width := i.width(time.Now())
	if i.waiting != nil {
		return 0
	}
	return max(width-i.inFlight(), 0)
}

// turn starts the rows that wait, if few enough are in flight or they have waited long enough, and lets the workers
// look for room. A reservation also ends if there was room for a claim that found nothing: another process has the
// suspect.
func (i *Isolation[R]) turn(foundNothing bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	width := i.width(now)
	if i.reserved > 0 {
		switch roomy := i.inFlight() < width; {
		case !roomy && now.Sub(i.since) >= isolationWait:
			i.rest = now.Add(isolationWait)
			i.suspects, i.reserved = nil, 0
		case roomy && (foundNothing || now.Sub(i.since) >= isolationWait):
			i.reserved = 0
		}
	}
	if rows := i.waiting; rows != nil {
		overdue := now.Sub(i.since) >= isolationWait
		if overdue {
			i.rest = now.Add(isolationWait)
			i.suspects = nil
		}
		if overdue || i.inFlight() <= width && i.claims.Load() == 0 {
			i.waiting = nil
			i.waitsIn.resume(rows)
		}
	}
	i.signal()
	i.arm(now)
}

func (i *Isolation[R]) signal() {
	for _, b := range i.buffers {
		b.signal()
	}
}

// arm sets the timer for the next turn.
func (i *Isolation[R]) arm(now time.Time) {
	i.active.Store(len(i.suspects) > 0 || i.waiting != nil || i.reserved > 0)
	var next time.Time
	if i.waiting != nil || i.reserved > 0 {
		next = i.since.Add(isolationWait)
	}
	for _, s := range i.suspects {
		if next.IsZero() || s.until.Before(next) {
			next = s.until
		}
	}
	switch {
	case next.IsZero() && i.timer != nil:
		i.timer.Stop()
	case next.IsZero():
	case i.timer == nil:
		i.timer = time.AfterFunc(next.Sub(now), func() { i.turn(false) })
	default:
		i.timer.Reset(next.Sub(now))
	}
}

// withdraw returns the buffer's rows that wait.
func (i *Isolation[R]) withdraw(b *Buffer[R]) (rows []R) {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting != nil && i.waitsIn == b {
		rows, i.waiting = i.waiting, nil
	}
	return rows
}
