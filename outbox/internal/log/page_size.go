package log

import (
	"sync/atomic"
	"time"
)

// A pageSize is how many messages of a lane a relay has in hand. Each fetch has its price, and reads what is left of
// the batch, so pages grow while the relay is fast. Who pauses or moves a subscription waits for a page, so that pages
// which take long shrink again.
type pageSize struct{ atomic.Int64 }

// A page that took less than fastPage may be larger, one that took more than slowPage is too large.
const (
	fastPage = 500 * time.Millisecond
	slowPage = 2 * time.Second
)

// follow takes in how long a page of so many messages took.
func (s *pageSize) follow(messages int, took time.Duration, least, most int) {
	switch size := s.Load(); {
	case took > slowPage:
		s.Store(max(size/2, int64(least)))
	case took < fastPage && int64(messages) >= size:
		s.Store(min(2*size, int64(most)))
	}
}
