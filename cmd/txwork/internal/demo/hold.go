package demo

import "sync"

// A hold makes handlers wait until it is released.
type hold struct {
	mu       sync.Mutex
	round    int
	released chan struct{} // nil if no hold is in force
}

// arm puts a hold in force.
func (h *hold) arm(round int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.round = round
	if h.released == nil {
		h.released = make(chan struct{})
	}
}

// release lets every handler go on.
func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released != nil {
		close(h.released)
		h.released = nil
	}
}

// wait returns at once if no hold is in force. Otherwise it calls holding and waits for the release.
func (h *hold) wait(holding func(round int)) {
	h.mu.Lock()
	round, released := h.round, h.released
	h.mu.Unlock()
	if released == nil {
		return
	}
	holding(round)
	<-released
}
