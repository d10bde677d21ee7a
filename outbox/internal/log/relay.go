package log

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue"
)

// The pauses of a relay that finds nothing grow from minPoll to its poll interval.
const minPoll = 10 * time.Millisecond

// A Handlers has messages handled. It is a [workqueue.External].
type Handlers interface {
	Database
	// Fetch tells telemetry of a fetch.
	Fetch(ctx context.Context, limit int, fetch func(context.Context) ([]Read, error)) error
	// Settle tells telemetry of a settle, and what becomes of the messages that it passes.
	Settle(ctx context.Context, passed []Passed, settle func(context.Context) (held bool, err error)) error
	// Listen has heard called with what is announced, and missed when something may have been missed.
	Listen(heard func(what string, first bool), missed func())
	// Take makes a message ready. Its place is in the page.
	Take(place int, m *Read) *workqueue.ExternalRow
	// Refuse says why there is nothing to hand out until it is called with nil.
	Refuse(why error)
	// Unit puts together what is handled with the first one that waits, see [workqueue.External].
	Unit(waiting []*workqueue.ExternalRow, behind func(*workqueue.ExternalRow) *workqueue.ExternalRow) (
		unit []*workqueue.ExternalRow, taken int)
	Handle(unit []*workqueue.ExternalRow, begins func(), ended func(*workqueue.ExternalRow))
	Logger() *slog.Logger
}

// RelayOptions are those of a [Relay]. All are set.
type RelayOptions struct {
	Schema, Subscription string
	Page, MostPage       int // messages: the first size of a page, and the largest, see pageSize
	Concurrency          int
	Lease                time.Duration
	Poll                 time.Duration
	Cooldown             time.Duration // the least time between two ticks, if that is more than tickEvery
	HandlerTimeout       time.Duration
	ShutdownTimeout      time.Duration
	Backoff              workqueue.Retry
}

// A Relay hands the messages of a subscription to their handlers. It has at most one page of each lane in hand. All its
// pages share the places of its handlers.
type Relay struct {
	RelayOptions
	places *places
	size   pageSize
	woken  chan struct{}

	// Since Run has begun.
	reader   *Reader
	handlers Handlers
	logger   *slog.Logger
	pages    sync.Map     // of *page, that are worked on
	hands    atomic.Int32 // pages in hand
	token    uuid.UUID    // of the next claim: the same until its reply has come
	pending  bool         // the token may have claimed a lane
	ticking  ticking
	rests    time.Duration // until somebody may probe the destination, at the last look; 0: it is not known to rest
	missed   time.Time     // when it was last said that the subscription does not exist; zero: it does
	away     atomic.Int64  // when it was last told that the destination is unavailable; 0: it is not known to be
}

// NewRelay makes a relay, which runs once.
func NewRelay(o RelayOptions) *Relay {
	r := &Relay{RelayOptions: o, places: newPlaces(o.Concurrency), woken: make(chan struct{}, 1)}
	r.size.Store(int64(o.Page))
	return r
}

// Resize changes how many handlers run at once.
func (r *Relay) Resize(n int) {
	r.places.resize(n)
	r.Wake()
}

// Wake makes the relay look for messages now.
func (r *Relay) Wake() { r.wake(&r.ticking.ticks, &r.ticking.fetches) }

// wake makes the relay tick or fetch, or both.
func (r *Relay) wake(what ...*atomic.Bool) {
	for _, it := range what {
		it.Store(true)
	}
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Run works until ctx is cancelled. Then it hands out no more than what lies before what it has handed out, waits for
// the handlers, settles, and gives its lanes back.
func (r *Relay) Run(ctx context.Context, h Handlers) error {
	r.handlers, r.logger = h, h.Logger()
	r.reader = NewReader(h, r.Schema, r.Subscription, r.Lease)
	r.token = uuid.New()
	h.Listen(r.hear, r.Wake)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var hands sync.WaitGroup
	err := r.poll(ctx, &hands)
	r.leaveTicking(ctx)
	end := time.Now().Add(r.ShutdownTimeout + r.abortGrace())
	stop()
	hands.Wait()
	if r.pending {
		r.release(ctx, r.token)
	}
	if n := r.places.await(end); n > 0 { // those that hang: pages do not wait for them
		err = errors.Join(err, fmt.Errorf("txwork: %d handlers of %s did not stop within %v of their context being "+
			"cancelled: their messages are handed out again", n, r.Subscription, r.abortGrace()))
	}
	return err
}

// poll looks for messages until ctx is cancelled.
func (r *Relay) poll(ctx context.Context, hands *sync.WaitGroup) error {
	pause, failing, began := minPoll, outage.MinPause, false
	var next time.Time // look, unless it is woken
	for ticks, fetches := true, true; ctx.Err() == nil; {
		looked, found, err := r.look(ctx, hands, ticks, fetches)
		if r.miss(ctx, err) {
			r.leaveTicking(ctx)
			await(ctx, missingPause, nil)
			continue
		}
		wait := pause
		switch {
		case err == nil && !looked:
			wait = time.Until(next)
		case err != nil && !began && !outage.Is(err) && !isBusy(err):
			return err
		case err != nil:
			if !outage.Is(err) {
				r.logger.LogAttrs(ctx, slog.LevelError, "the log cannot be read", slog.Any("error", err))
			}
			wait, failing = failing, outage.Next(failing, err)
		case found:
			wait, pause, failing, began = minPoll, minPoll, outage.MinPause, true
		case r.rests > 0: // an operator may end the rest
			wait, pause, failing, began = min(r.rests, r.Poll), minPoll, outage.MinPause, true
		default:
			pause, failing, began = min(2*pause, r.Poll), outage.MinPause, true
		}
		next = time.Now().Add(wait)
		if err != nil { // neither a promise nor an announcement shortens the pause
			await(ctx, wait, nil)
		} else {
			await(ctx, r.ticking.atMost(wait), r.woken)
		}
		ticks, fetches = r.ticking.isDue(!time.Now().Before(next))
	}
	return nil
}

// While its subscription does not exist, a relay looks for it every missingPause, and says so every missingTold.
const (
	missingPause = 5 * time.Second
	missingTold  = time.Hour
)

// miss reports whether a look found that the subscription does not exist. Other parts of the process are not concerned,
// so the relay waits for it.
func (r *Relay) miss(ctx context.Context, err error) bool {
	missing := errors.Is(err, ErrUnknownSubscription)
	switch {
	case missing && time.Since(r.missed) > missingTold:
		r.missed = time.Now()
		r.handlers.Refuse(err)
		r.logger.LogAttrs(ctx, slog.LevelError, "the subscription does not exist, and the relay waits for it",
			slog.Any("error", err))
	case err == nil && !r.missed.IsZero():
		r.missed = time.Time{}
		r.handlers.Refuse(nil)
		r.logger.LogAttrs(ctx, slog.LevelInfo, "the subscription exists, and the relay reads it")
	}
	return missing
}

// isBusy tells whether a statement waited for too long for what others held: it may succeed the next time.
func isBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"55P03", "57014", "40P01"}, pg.Code)
}

// await ends a pause early if ctx is cancelled, or if something is received from woken, which it reports.
func await(ctx context.Context, pause time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-woken:
		return true
	}
	return false
}

// look ticks and looks for messages if it is told to, or if the tick has seen some for the subscription, and takes the
// lanes that have messages in hand. A fetch is not cancelled with ctx: a claim that is broken off would keep its lane
// until the lease ends.
func (r *Relay) look(ctx context.Context, hands *sync.WaitGroup, ticks, fetches bool) (looked, found bool, err error) {
	if ticks {
		if await(ctx, r.ticking.rest(), nil); ctx.Err() != nil {
			return false, false, nil
		}
		names, err := r.ticking.tick(ctx, r.reader, r.promise())
		if ctx.Err() != nil { // it may have been broken off
			return false, false, nil
		}
		if err != nil {
			return false, false, err
		}
		fetches = fetches || r.isNamed(names)
	}
	if !fetches {
		return false, false, nil
	}
	r.rests = 0
	for more := true; more && !r.isFull() && ctx.Err() == nil; {
		r.pending = true
		start := time.Now()
		page, err := r.fetch(context.WithoutCancel(ctx), r.token)
		if err != nil {
			return true, found, err
		}
		token := r.token
		r.token, r.pending, more = uuid.New(), false, page.More
		r.rests = page.Wait
		if page.Upto > 0 {
			found = true
			r.hands.Add(1)
			hands.Go(func() { r.work(ctx, token, page, start) })
		}
	}
	return true, found, nil
}

func (r *Relay) fetch(ctx context.Context, token uuid.UUID) (page Page, err error) {
	start, n := time.Now(), int(r.size.Load())
	err = r.handlers.Fetch(ctx, n, func(ctx context.Context) ([]Read, error) {
		page, err = r.reader.Fetch(ctx, token, n)
		return page.Messages, err
	})
	if err == nil {
		r.noteAway(page, start)
	}
	return page, err
}

func (r *Relay) isFull() bool { return int(r.hands.Load()) >= min(r.places.size(), maxLanes) }

// work works on a batch, page by page.
func (r *Relay) work(ctx context.Context, token uuid.UUID, read Page, start time.Time) {
	defer r.handIsFree()
	h := &hand{Relay: r, token: token, expires: start.Add(r.Lease), attempts: read.Attempts}
	for fresh := true; ; {
		p := newPage(h, read)
		if fresh {
			p.accuse()
		}
		result := p.run(ctx)
		r.size.follow(len(read.Messages), time.Since(start), r.Page, r.MostPage)
		switch result {
		case Ended, Lost, refused, Resting:
			return
		case Settled:
		default:
			r.release(ctx, token)
			return
		}
		if ctx.Err() != nil {
			r.release(ctx, token)
			return
		}
		err := h.insist(ctx, func(ctx context.Context) (err error) {
			start = time.Now()
			read, err = r.fetch(ctx, token)
			return err
		})
		if err != nil {
			r.release(ctx, token)
		}
		if err != nil || read.Upto == 0 {
			return
		}
		// A verb may have taken the lane, and the token have claimed another one.
		fresh, h.attempts, h.expires = read.Attempts > h.attempts, read.Attempts, start.Add(r.Lease)
	}
}

// release gives a lane back; if that fails, its lease ends.
func (r *Relay) release(ctx context.Context, token uuid.UUID) {
	if err := r.reader.Release(context.WithoutCancel(ctx), token); err != nil {
		r.logger.LogAttrs(ctx, slog.LevelWarn, "a lane was not given back and waits for the end of its lease",
			slog.Any("error", err))
	}
}

// abortGrace is how long a handler whose context was cancelled may take to notice.
func (r *Relay) abortGrace() time.Duration { return max(r.ShutdownTimeout/4, time.Second) }

// hungAfter is how long a call of a handler may take until its message is parked, although it has not returned.
func (r *Relay) hungAfter() time.Duration {
	timeout := min(r.HandlerTimeout, forever)
	return timeout + max(timeout/4, time.Second)
}

// forever is so short that times can be added to it.
const forever = 100 * 365 * 24 * time.Hour

// A hand is a lane that the relay holds.
type hand struct {
	*Relay
	token    uuid.UUID
	expires  time.Time // the lease, at the latest
	attempts int       // see Page
}

// insist repeats a statement that fails until the lease has ended, or for the ShutdownTimeout once ctx is cancelled. It
// gives up at once if the subscription was removed.
func (h *hand) insist(ctx context.Context, statement func(context.Context) error) error {
	base, end := context.WithoutCancel(ctx), h.expires
	for pause, told, stops := outage.MinPause, false, false; ; {
		err := statement(base)
		if err == nil || errors.Is(err, ErrUnknownSubscription) {
			return err
		}
		if !stops && ctx.Err() != nil {
			stops = true
			if most := time.Now().Add(h.ShutdownTimeout); most.Before(end) {
				end = most
			}
		}
		if !told && !outage.Is(err) {
			told = true
			h.logger.LogAttrs(ctx, slog.LevelError, "a page cannot be settled", slog.Any("error", err))
		}
		if !time.Now().Add(pause).Before(end) {
			return err
		}
		time.Sleep(pause)
		pause = outage.Next(pause, err)
	}
}

// window is how many messages may be handled at once: all of a page, or after each death half as many as before, so
// that what kills its process is found alone.
func (h *hand) window(attempts int) int {
	if attempts <= 1 {
		return h.MostPage
	}
	return max(1, h.Page>>min(attempts-1, 30))
}
