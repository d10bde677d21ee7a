package log

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// tickEvery is how often the keeper of a promise ticks: what arrives meanwhile waits half of it. A tick without
	// news costs the server 0.1 ms.
	tickEvery = 5 * time.Millisecond

	// slowestTicks bounds the time between two ticks on a slow server, and rarestTicks that of a keeper without news.
	slowestTicks = 4 * tickEvery
	rarestTicks  = time.Second

	// promised is for how long after a tick its relay promises to go on. Producers that write more often than that need
	// not announce anything.
	promised = 100 * time.Millisecond

	// leaving bounds how long a relay that stops keeps its promise, and how long it then waits for a tick, which others
	// may hold up.
	leaving = 500 * time.Millisecond

	noPromise = -1
)

// A ticking is when a relay ticks. Relays that find nothing wait until they hear of news:
//
//   - Producers announce their messages. One relay of each process then ticks.
//   - A tick with news announces itself to the subscriptions that want them. These need not tick.
//   - Whose tick had news goes on every tickEvery, for as long as there is some. Producers are silent meanwhile: NOTIFY
//     has all transactions of the server commit one after the other.
//
// Whoever hears nothing, and gets nothing, ticks in pauses that grow to the poll interval.
type ticking struct {
	ticks, fetches atomic.Bool  // what the next look is to do
	followed       atomic.Int64 // when a tick was last announced to the subscription
	keeps          atomic.Int64 // the tick with which it has made its promise; 0: it has none to keep

	// Of the relay's loop only.
	last  time.Time     // tick
	news  time.Time     // of the last tick that had some
	every time.Duration // time between two ticks
}

// hear takes in what is announced, see [workqueue.External]: the names of subscriptions whose messages a tick has seen,
// all of them, or messages that no tick has seen.
func (r *Relay) hear(what string, first bool) {
	switch {
	case what == "" && first:
		r.wake(&r.ticking.ticks)
	case r.isNamed(what):
		r.ticking.followed.Store(int64(time.Since(processStart)))
		if !r.IsAway() { // the rest has an end
			r.wake(&r.ticking.fetches)
		}
	}
}

// isNamed reports whether the subscription is among those of an announcement.
func (r *Relay) isNamed(announced string) bool {
	var names []string
	return announced == "*" ||
		json.Unmarshal([]byte(announced), &names) == nil && slices.Contains(names, r.Subscription)
}

// handIsFree looks for more when a batch has ended.
func (r *Relay) handIsFree() {
	r.hands.Add(-1)
	if r.ticking.keeps.Load() != 0 || r.ticking.isFollowing() {
		r.wake(&r.ticking.fetches)
	} else {
		r.Wake()
	}
}

// isFollowing reports whether another one was ticking a moment ago.
func (t *ticking) isFollowing() bool {
	at := t.followed.Load()
	return at != 0 && time.Since(processStart)-time.Duration(at) < promised
}

// isDue is what to do at the end of a pause, or when the relay was woken in it.
func (t *ticking) isDue(paused bool) (ticks, fetches bool) {
	ticks, fetches = t.ticks.Swap(false), t.fetches.Swap(false)
	if t.keeps.Load() != 0 {
		return ticks || t.promisedRest() <= 0, fetches || paused
	}
	return ticks || paused && !t.isFollowing(), fetches || paused
}

// atMost bounds a pause by the time of the next tick that was promised.
func (t *ticking) atMost(pause time.Duration) time.Duration {
	if t.keeps.Load() == 0 {
		return pause
	}
	return min(pause, t.promisedRest())
}

// rest is how long the next tick has to wait.
func (t *ticking) rest() time.Duration { return time.Until(t.last.Add(t.every)) }

// promisedRest is how long a keeper's next tick may wait that nobody has asked for.
func (t *ticking) promisedRest() time.Duration {
	return time.Until(t.last.Add(max(t.every, keepersPause(t.last.Sub(t.news)))))
}

// keepersPause is the time between two ticks of a keeper after so long without news. A transaction that was silent may
// stay open: what it has written then waits for a tenth of that time.
func keepersPause(quiet time.Duration) time.Duration { return min(quiet/10, rarestTicks) }

// promise is for how long the relay promises to tick.
func (r *Relay) promise() time.Duration {
	if r.ticking.every = max(tickEvery, r.Cooldown); r.Cooldown > minPoll {
		return noPromise
	}
	return promised
}

// tick ticks, and returns what it has announced. It ends the promise when that is over, no transaction is open that
// relied on it, and nothing was found since; or when another one has promised.
func (t *ticking) tick(ctx context.Context, reader *Reader, promise time.Duration) (announced string, err error) {
	t.last = time.Now()
	ctx, done := lasting(ctx)
	defer done()
	found, err := reader.Tick(ctx, promise)
	if err != nil {
		return "", err
	}
	if found.Stored {
		t.news = t.last
	}
	t.every = max(t.every, min(2*time.Since(t.last), slowestTicks)) // a slow server
	switch {
	case found.Stored && promise != noPromise:
		t.keeps.Store(found.Newest)
	case !found.Expects || found.Keeper != t.keeps.Load():
		t.keeps.Store(0)
	}
	return found.Announced, nil
}

// lasting is a context that is cancelled when ctx has been for the time of leaving: a tick that is broken off may have
// made a promise.
func lasting(ctx context.Context) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leaving, cancel) })
	return longer, func() { stop(); cancel() }
}

// leaveTicking ends the promise of a relay that stops: producers announce their messages from then on, and what they
// have written is seen.
func (r *Relay) leaveTicking(ctx context.Context) {
	for end := time.Now().Add(leaving); r.ticking.keeps.Load() != 0 && time.Now().Before(end); {
		await(context.WithoutCancel(ctx), r.ticking.rest(), nil)
		if _, err := r.ticking.tick(ctx, r.reader, 0); err != nil {
			return
		}
	}
}
