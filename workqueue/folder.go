package workqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the pauses of a folder that found another one at work.
const (
	minBusyPause = 2 * time.Millisecond
	maxBusyPause = 50 * time.Millisecond
)

// foldLinger is how long a folder waits for settles that are under way.
const foldLinger = 300 * time.Microsecond

// A folder applies a table's notes beside the workers of a process: after their own settles, when somebody announces
// notes, when a note is due, and at least at every poll interval.
//
// Like a claimer it goes on behind the last note that it took, in each fold. A note may appear behind that place,
// written by a transaction that began earlier: an announcement and the workers' own settles lead it back, and a pass
// from the start now and then finds the rest.
type folder struct {
	work *tableWork
	wake chan struct{}

	underway atomic.Int32 // settles that will write notes

	mu       sync.Mutex
	cursors  []time.Time // of each fold
	noted    time.Time   // the earliest time that was announced since the current fold began; zero: none
	settling time.Time   // when the first settle began whose notes are not folded yet; zero: none
	nextPass time.Time   // from the start
	told     foldMark    // the last fold that the workers were told of

	placed fronts // of the last fold; only one goroutine folds
}

func newFolder(t *tableWork) *folder {
	return &folder{work: t, wake: make(chan struct{}, 1), cursors: make([]time.Time, len(t.table.spec.Folds))}
}

// settles tells of a settle that will write notes. The function that it returns asks for them once that has ended; it
// never blocks.
func (f *folder) settles() (settled func()) {
	began := time.Now()
	f.underway.Add(1)
	return func() {
		f.underway.Add(-1)
		f.mu.Lock()
		f.settling = earliest(f.settling, began)
		f.mu.Unlock()
		f.want()
	}
}

// gather waits for settles that are under way, so that keys which end at about the same time are folded together, and
// what that releases is claimed together.
func (f *folder) gather() {
	if f.underway.Load() == 0 {
		return
	}
	timer := time.NewTimer(foldLinger)
	defer timer.Stop()
	for f.underway.Load() > 0 {
		select {
		case <-f.wake:
		case <-timer.C:
			return
		}
	}
}

// announced asks for notes that were due at the given time.
func (f *folder) announced(due time.Time) {
	f.mu.Lock()
	f.noted = earliest(f.noted, due)
	f.leadBack()
	f.mu.Unlock()
	f.want()
}

func (f *folder) leadBack() {
	for i, c := range f.cursors {
		if f.noted.Before(c) && !f.noted.IsZero() {
			f.cursors[i] = f.noted
		}
	}
}

// earliest is the first of two times, of which either may be missing.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// missed asks for a pass from the start.
func (f *folder) missed() {
	f.mu.Lock()
	f.nextPass = time.Time{}
	f.mu.Unlock()
	f.want()
}

func (f *folder) want() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run folds until ctx is cancelled, and then once more if it was asked to: what the last settles have noted is for
// others to go on with.
func (f *folder) run(ctx context.Context) {
	var pause, busy time.Duration
	for f.await(ctx, pause) {
		f.gather()
		r, err := f.fold(context.WithoutCancel(ctx))
		if err == nil && r.busy {
			busy = min(max(2*busy, minBusyPause), maxBusyPause)
			pause = busy
			continue
		}
		busy, pause = 0, f.work.foldInterval()
		if err != nil {
			logError(f.work.table.telemetry.logger, err)
		} else if r.again >= 0 {
			pause = min(pause, r.again)
		}
	}
}

// await tells when to fold: now or after the pause, and not at all once there is nothing to do any more.
func (f *folder) await(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-f.wake:
		return true
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	}
	select {
	case <-f.wake:
		return true
	default:
		return false
	}
}

// fold applies what is due once, and wakes the workers for what that released.
func (f *folder) fold(ctx context.Context) (r foldResult, err error) {
	p, at := f.begin(time.Now()), f.work.fronts()
	at.moveBeyond(f.placed)
	f.placed = at
	err = f.work.within(ctx, func(ctx context.Context) (err error) {
		r, err = f.work.queue.foldOnce(ctx, p.since, at)
		return err
	})
	f.end(p, r, err == nil && !r.busy)
	if r.released > 0 {
		at.leadBack(f.work.claiming())
		f.tell(r.by)
	}
	return r, err
}

// tell wakes the workers for what a fold of this process has released. Those that listen may have been woken by its
// notification.
func (f *folder) tell(by foldMark) {
	isNews := f.isNews(by)
	for _, w := range f.work.claiming() {
		if isNews || w.options.NoListen {
			w.claimer.rewind(by.began)
			w.poll.Wake()
		}
	}
}

// isNews tells whether the workers have not been told of the fold. Each fold of this process is reported twice, by its
// reply and by its notification, in either order: a second wake would be a claim in vain.
func (f *folder) isNews(by foldMark) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	isNews := f.told.session != by.session || !f.told.began.Equal(by.began)
	f.told = by
	return isNews
}

// A foldPass is one call of the folds under way.
type foldPass struct {
	start    time.Time
	since    []time.Time
	settling time.Time
	whole    bool // from the start
}

// begin tells where each fold begins: at its cursor, less the time for which the first of the settles has been under
// way whose notes are to be found.
func (f *folder) begin(now time.Time) foldPass {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := foldPass{start: now, since: make([]time.Time, len(f.cursors)), settling: f.settling,
		whole: !now.Before(f.nextPass)}
	f.settling, f.noted = time.Time{}, time.Time{}
	if p.whole {
		return p
	}
	var back time.Duration
	if !p.settling.IsZero() {
		back = now.Sub(p.settling) + time.Millisecond
	}
	for i, c := range f.cursors {
		if !c.IsZero() {
			p.since[i] = c.Add(-back)
		}
	}
	return p
}

// end moves the cursors behind what was taken. A call that was not complete is to be repeated from the same place.
func (f *folder) end(p foldPass, r foldResult, complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !complete {
		f.settling = earliest(f.settling, p.settling)
		return
	}
	for i, e := range r.ends {
		if e.full || e.upto.After(f.cursors[i]) {
			f.cursors[i] = e.upto
		}
	}
	f.leadBack()
	if p.whole {
		took := time.Since(p.start)
		f.nextPass = time.Now().Add(max(f.work.pollInterval(), min(sweepShare*took, maxSweepInterval)))
	}
}
