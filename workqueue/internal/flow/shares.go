package flow

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

// A share is what a worker knows of a topic. A topic begins with a quarter of the places that others
// leave, and the only one with half of them. It has one more after each success for which another row was waiting, up
// to nearly all places, and loses them again when it does not need them or when a handler that took long fails. So a
// topic whose handlers work has nearly all places within a few of their durations, while one whose handlers hang holds
// a quarter.
type share struct {
	topic    string
	running  int       // handlers
	each     int       // how many rows its batches take at most; 0: it has none
	window   int       // how many may run; 0: it has not grown
	limited  time.Time // when a row last had to wait for a place of the topic
	progress time.Time // when a handler last ended, or began while no other ran
	success  time.Time
	used     time.Time // when a row last came
	stuck    bool      // its rows are set aside, and claimed from there for free places only
}

// assign finds the shares of the topics of claimed rows, and tells whether one of the rows has lost a lease.
func (b *Buffer[R]) assign(rows []R) (lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, row := range rows {
		p := row.Place()
		if lost = lost || p.Lost != nil; p.Topic == "" {
			continue
		}
		s := b.shares[p.Topic]
		if s == nil {
			if b.shares == nil {
				b.shares = map[string]*share{}
			}
			s = &share{topic: p.Topic}
			b.shares[p.Topic] = s
		}
		s.used, p.share = now, s
	}
	if now.Sub(b.pruned) < windowMemory {
		return lost
	}
	b.pruned = now
	for topic, s := range b.shares {
		if s.running == 0 && now.Sub(s.used) > shareMemory {
			delete(b.shares, topic)
		}
	}
	return lost
}

// allowed is how many handlers of a topic may run.
func (b *Buffer[R]) allowed(s *share, now time.Time) int {
	if b.perTopic > 0 {
		return b.perTopic
	}
	reserved, left := b.concurrency/reservedPart, b.concurrency-(b.running-s.running)
	most := max(b.concurrency-reserved, 1)
	first := left / firstPart
	known, alone := now.Sub(s.success) < shareMemory, len(b.shares) == 1 && !s.stuck
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
		free := b.concurrency - b.running - reserved
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

// startable is the index of the first row in the queue that may start; -1: there is none.
func (b *Buffer[R]) startable() int {
	var now time.Time
	for i, row := range b.queue {
		s := row.Place().share
		if s == nil {
			return i
		}
		if now.IsZero() {
			now = time.Now()
		}
		if s.running < b.allowed(s, now) {
			return i
		}
		if s.wait(now); b.stalls == nil && b.spawn != nil {
			b.stalls = time.AfterFunc(stallTime, b.unstall)
		}
	}
	return -1
}

// started counts a row for its topic.
func (b *Buffer[R]) started(row R) {
	p := row.Place()
	if s := p.share; s != nil {
		if s.running == 0 {
			s.progress = time.Now()
		}
		s.running++
		p.started = time.Now()
	}
}

// ended counts a row that started says has begun. It reports whether a claim may have rows for its place.
func (b *Buffer[R]) ended(row R, succeeded bool) (wake bool) {
	p := row.Place()
	s := p.share
	if s == nil || p.started.IsZero() {
		return false
	}
	now := time.Now()
	switch {
	case succeeded && (now.Sub(s.limited) < windowMemory || s.stuck):
		s.window = min(max(s.window, s.running)+1, b.concurrency)
		s.success = now
	case succeeded:
		s.window, s.success = 0, now
	case now.Sub(p.started) >= windowMemory:
		s.window = 0
	}
	s.running--
	s.progress, p.started = now, time.Time{}
	return s.stuck
}

// unstall puts the rows back that wait for places of topics of which no handler has ended for a while.
func (b *Buffer[R]) unstall() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stalls = nil
	if b.closed {
		return
	}
	now := time.Now()
	var back []R
	b.queue = slices.DeleteFunc(b.queue, func(row R) bool {
		s := row.Place().share
		if s == nil || s.running < b.allowed(s, now) || now.Sub(s.progress) < stallTime {
			return false
		}
		s.stuck, s.window = true, 0
		back = append(back, row)
		return true
	})
	if len(back) > 0 {
		b.running += len(back)
		b.spawn(func() { b.release(back) })
	}
	if b.startable() >= 0 {
		b.ready.Broadcast()
	}
	b.signal()
}

// Stuck returns the topics whose rows are to be set aside, with the number of rows for which each has places.
// A nil buffer has no topics.
func (b *Buffer[R]) Stuck() (rooms map[string]int) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, s := range b.shares {
		if !s.stuck {
			continue
		}
		room := (b.allowed(s, now) - s.running) * max(s.each, 1)
		for _, g := range b.gatherings {
			if !g.ended && g.rows[0].Place().share == s {
				room += g.room()
			}
		}
		for _, row := range b.queue {
			if row.Place().share == s {
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

// Drained reports that a topic has no rows aside any more. If its handlers succeed, its rows are claimed like others.
func (b *Buffer[R]) Drained(topic string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shares[topic]; s != nil && s.stuck && time.Since(s.success) < windowMemory {
		s.stuck = false
	}
}
