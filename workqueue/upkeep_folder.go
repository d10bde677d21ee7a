package workqueue

import (
	"context"
	"time"

	"github.com/txwork/txwork/internal/postgres"
)

// A folder applies a table's notes beside the workers of a process: after their own settles, when a notification
// announces notes, when a note is due, and at least at every poll interval.
//
// Like a claimer, it continues in each fold after the last note that it applied. A transaction that began earlier may
// still write a note behind that place. Announcements and the workers' own settles move the folder back to such notes,
// and an occasional pass from the start finds the rest.
type folder struct {
	notesDue
	work *tableWork

	// Guarded by mu.
	cursors  []time.Time // where each fold continues
	noted    time.Time   // the earliest time that was announced since the current fold began; zero: none
	nextPass time.Time   // when the next pass from the start is due
	reported foldMark    // the last fold for which the workers were woken

	placed fronts // the fronts of the last fold; used only by the goroutine that folds
}

func newFolder(t *tableWork) *folder {
	return &folder{notesDue: notesDue{wake: make(chan struct{}, 1)}, work: t,
		cursors: make([]time.Time, len(t.table.spec.Folds))}
}

// announced asks for a fold of notes that are due from the given time on.
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

// missed asks for a pass from the start, because notifications may have been missed.
func (f *folder) missed() {
	f.mu.Lock()
	f.nextPass = time.Time{}
	f.mu.Unlock()
	f.want()
}

// run folds until ctx is cancelled, and then once more if it was asked to: the last settles may have made rows
// claimable for other processes.
func (f *folder) run(ctx context.Context) {
	var pause, busy time.Duration
	for f.await(ctx, pause) {
		f.gather()
		r, err := f.fold(context.WithoutCancel(ctx))
		f.able.Store(err == nil || f.able.Load() && !postgres.IsOwn(err))
		if postgres.IsOwn(err) && f.work.leads.Load() {
			f.work.stepDown() // the others fold less often while this process leads
		}
		if f.work.leaves(err) {
			f.rest(ctx)
			busy, pause = 0, 0
			continue
		}
		if err == nil && r.busy {
			busy = min(max(2*busy, minBusyPause), maxBusyPause)
			pause = busy
			continue
		}
		busy, pause = 0, f.work.foldInterval()
		if err != nil {
			logError(f.work.table.telemetry.Logger(), err)
		} else if r.again >= 0 {
			pause = min(pause, r.again)
		}
	}
}

// rest waits while folds are left to other processes.
func (f *folder) rest(ctx context.Context) {
	select {
	case <-time.After(unfitFor):
		f.missed()
	case <-ctx.Done():
	}
	select {
	case <-f.wake: // asked for meanwhile; whoever folds has been told, too
	default:
	}
}

// await waits until it is time to fold: when asked to, or after the pause. It returns false once ctx is cancelled and
// no fold is asked for.
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

// fold applies the notes that are due, once, and wakes the workers if that released rows.
func (f *folder) fold(ctx context.Context) (r foldResult, err error) {
	p, at := f.begin(time.Now()), f.work.fronts()
	at.moveBeyond(f.placed)
	f.placed = at
	err = f.work.within(ctx, func(ctx context.Context) (err error) {
		r, err = f.work.queue.foldOnce(ctx, p.since, at.json())
		return err
	})
	f.end(p, r, err == nil && !r.busy)
	if r.released > 0 {
		at.leadBack(f.work.claiming())
		f.wakeFor(r.by)
	}
	return r, err
}

// wakeFor wakes the workers for what a fold of this process has released. Those that listen may have been woken by its
// notification already.
func (f *folder) wakeFor(by foldMark) {
	isNews := f.isNews(by)
	for _, w := range f.work.claiming() {
		if isNews || w.options.NoListen {
			w.claimer.rewind(by.began)
			w.poll.Wake()
		}
	}
}

// isNews reports whether the workers have not been woken for the fold yet. Each fold of this process is reported twice,
// by its reply and by its notification, in either order; a second wake would cause a claim that finds nothing.
func (f *folder) isNews(by foldMark) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	isNews := f.reported.session != by.session || !f.reported.began.Equal(by.began)
	f.reported = by
	return isNews
}

// A foldPass is a call of the folds that is under way.
type foldPass struct {
	start    time.Time
	since    []time.Time
	settling time.Time
	whole    bool // from the start
}

// begin decides where each fold begins: at its cursor, moved back by the age of the oldest settle whose notes are not
// folded yet.
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

// end moves the cursors to the last notes that were applied. A call that was incomplete is repeated from the same
// place.
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

// fronts returns the fronts of the table's workers, including workers that are about to begin: after a start, what they
// serve has the longest backlog.
func (t *tableWork) fronts() fronts {
	at := fronts{}
	oldest := time.Now().Add(-frontAge)
	for _, w := range t.serving() {
		w.claimer.addFronts(at, oldest)
	}
	at.fit(maxFronts)
	return at
}

// leadBack moves the cursors of workers back to the fronts.
func (at fronts) leadBack(workers []*Worker) {
	if len(at) == 0 {
		return
	}
	for _, w := range workers {
		w.claimer.leadBack(at)
	}
}
