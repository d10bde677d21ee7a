package workqueue

import (
	"slices"
	"time"
)

const (
	// stallTime is how long the rows of a topic wait in a worker for places of the topic while none of its handlers
	// ends. After that they are put back, and further ones are set aside instead of being claimed.
	stallTime = 250 * time.Millisecond
	// windowMemory is how long a topic keeps places that it does not need.
	windowMemory = time.Second
	// shareMemory is how long a topic is known that has no rows.
	shareMemory = time.Minute
	// reservedPart is the part of a worker's places that no single topic takes.
	reservedPart = 8
	// firstPart is the part of the places left by other topics that a topic has before its handlers have succeeded.
	firstPart = 4
	// firstPartAlone is the same for the only topic of a worker.
	firstPartAlone = 2
)

// A share is what a worker knows of a topic, see [Spec].Topics. A topic begins with a quarter of the places that others
// leave, and the only one with half of them. It has one more after each success for which another row was waiting, up
// to nearly all places, and loses them again when it does not need them or when a handler that took long fails. So a
// topic whose handlers work has nearly all places within a few of their durations, while one whose handlers hang holds
// a quarter.
type share struct {
	topic    string
	running  int       // handlers
	window   int       // how many may run; 0: it has not grown
	limited  time.Time // when a row last had to wait for a place of the topic
	progress time.Time // when a handler last ended, or began while no other ran
	success  time.Time
	used     time.Time // when a row last came
	stuck    bool      // its rows are set aside, and claimed from there for free places only
}

// assign finds the shares of the topics of claimed rows.
func (f *flow) assign(deliveries []*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, d := range deliveries {
		if d.topic == "" {
			continue
		}
		s := f.shares[d.topic]
		if s == nil {
			if f.shares == nil {
				f.shares = map[string]*share{}
			}
			s = &share{topic: d.topic}
			f.shares[d.topic] = s
		}
		s.used, d.share = now, s
	}
	if now.Sub(f.pruned) < windowMemory {
		return
	}
	f.pruned = now
	for topic, s := range f.shares {
		if s.running == 0 && now.Sub(s.used) > shareMemory {
			delete(f.shares, topic)
		}
	}
}

// allowed is how many handlers of a topic may run.
func (f *flow) allowed(s *share, now time.Time) int {
	if f.perTopic > 0 {
		return f.perTopic
	}
	reserved, left := f.concurrency/reservedPart, f.concurrency-(f.running-s.running)
	most := max(f.concurrency-reserved, 1)
	first := left / firstPart
	known, alone := now.Sub(s.success) < shareMemory, len(f.shares) == 1 && !s.stuck
	switch {
	case alone && known:
		return most
	case alone:
		first = left / firstPartAlone
	case !known:
		most = min(most, left-reserved/2) // the last places are for those who are known to give them back
	}
	allowed := max(first, 1)
	if now.Sub(s.limited) < windowMemory || s.stuck {
		// Topics with large windows may hang together, so none grows into the last places.
		free := f.concurrency - f.running - reserved
		allowed = max(allowed, min(s.window, s.running+free))
	}
	return min(allowed, most)
}

// wait records that a row has to wait for a place of its topic. A topic of which none has waited for a while did not
// need its window.
func (s *share) wait(now time.Time) {
	if now.Sub(s.limited) >= windowMemory && !s.stuck {
		s.window = 0
	}
	s.limited = now
}

// startable is the place of the first delivery in the queue that may start; -1: there is none.
func (f *flow) startable() int {
	var now time.Time
	for i, d := range f.queue {
		if d.share == nil {
			return i
		}
		if now.IsZero() {
			now = time.Now()
		}
		if d.share.running < f.allowed(d.share, now) {
			return i
		}
		if d.share.wait(now); f.stalls == nil && f.spawn != nil {
			f.stalls = time.AfterFunc(stallTime, f.unstall)
		}
	}
	return -1
}

// started counts a delivery for its topic.
func (f *flow) started(d *delivery) {
	if s := d.share; s != nil {
		if s.running == 0 {
			s.progress = time.Now()
		}
		s.running++
		d.started = time.Now()
	}
}

// ended counts a delivery that started says has begun. It reports whether a claim may have rows for its place.
func (f *flow) ended(d *delivery, succeeded bool) (wake bool) {
	s := d.share
	if s == nil || d.started.IsZero() {
		return false
	}
	now := time.Now()
	switch {
	case succeeded && (now.Sub(s.limited) < windowMemory || s.stuck):
		s.window = min(max(s.window, s.running)+1, f.concurrency)
		s.success = now
	case succeeded:
		s.window, s.success = 0, now
	case now.Sub(d.started) >= windowMemory:
		s.window = 0
	}
	s.running--
	s.progress, d.started = now, time.Time{}
	return s.stuck
}

// unstall puts the rows back that wait for places of topics of which no handler has ended for a while.
func (f *flow) unstall() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stalls = nil
	if f.closed {
		return
	}
	now := time.Now()
	var back []*delivery
	f.queue = slices.DeleteFunc(f.queue, func(d *delivery) bool {
		s := d.share
		if s == nil || s.running < f.allowed(s, now) || now.Sub(s.progress) < stallTime {
			return false
		}
		s.stuck, s.window = true, 0
		back = append(back, d)
		return true
	})
	if len(back) > 0 {
		f.running += len(back)
		f.spawn(func() { f.release(back) })
	}
	if f.startable() >= 0 {
		f.ready.Broadcast()
	}
	f.signal()
}

// stuck returns the topics whose rows are to be set aside, with the number of rows for which each has places.
func (f *flow) stuck() (rooms map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, s := range f.shares {
		if !s.stuck {
			continue
		}
		room := f.allowed(s, now) - s.running
		for _, d := range f.queue {
			if d.share == s {
				room--
			}
		}
		if rooms == nil {
			rooms = map[string]int{}
		}
		rooms[s.topic] = max(room, 0)
	}
	return rooms
}

// drained reports that a topic has no rows aside any more. If its handlers succeed, its rows are claimed like others.
func (f *flow) drained(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.shares[topic]; s != nil && s.stuck && time.Since(s.success) < windowMemory {
		s.stuck = false
	}
}
