package webui

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// updateHeader is what the script sends when a page that is open reads itself again.
const updateHeader = "Txwork-Update"

// maxShared is how many pages are shared of one reading.
const maxShared = 100

// sharing lets those who have the same page open read it once. All of them read it again when the figures are new, so
// it is kept until they are newer, or an action has changed something. Whoever opens a page gets one of their own.
type sharing struct {
	every time.Duration // pages are kept for

	mu    sync.Mutex
	of    *reading
	since time.Time
	pages map[string]*sharedPage
}

// A sharedPage is one that is read, or was.
type sharedPage struct {
	read chan struct{} // closed when it was
	view view
	ok   bool
}

// page returns the page that was read of some figures under a key or, if it is the first to ask, reads it.
func (s *sharing) page(ctx context.Context, of *reading, key string, read func() (view, *problem)) (view, *problem) {
	p, first := s.find(of, key)
	switch {
	case p == nil:
		return read()
	case first:
		defer close(p.read)
		v, problem := read()
		p.view, p.ok = v, problem == nil
		return v, problem
	}
	select {
	case <-p.read:
	case <-ctx.Done():
	}
	if ctx.Err() == nil && p.ok {
		return p.view, nil
	}
	return read() // what the first has met may be its own, such as that its browser has gone
}

// find returns the page of a key, or nil if there are too many, and whether it has to be read.
func (s *sharing) find(of *reading, key string) (p *sharedPage, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages == nil || s.of != of || time.Since(s.since) >= s.every {
		s.of, s.since, s.pages = of, time.Now(), map[string]*sharedPage{}
	}
	if p = s.pages[key]; p != nil || len(s.pages) >= maxShared {
		return p, false
	}
	p = &sharedPage{read: make(chan struct{})}
	s.pages[key] = p
	return p, true
}

// forget makes every page be read again: what is being read may be from before an action that has changed something.
func (s *sharing) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = nil
}

// scope is what a page depends on, but for what the database contains and the name of the user.
func (r *request) scope() string {
	return fmt.Sprintf("%q %q %d %t %#v %#v", r.URL.EscapedPath(), r.URL.RawQuery, r.user.Role, r.acts(), r.user.Tables,
		r.user.Queues)
}
