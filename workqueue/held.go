package workqueue

import (
	"sync"

	"github.com/google/uuid"
)

// held are the deliveries whose claim the worker answers for: from the claim until the settle.
type held struct {
	mu         sync.Mutex
	deliveries map[uuid.UUID]*delivery
}

func (h *held) add(ds []*delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deliveries == nil {
		h.deliveries = make(map[uuid.UUID]*delivery)
	}
	for _, d := range ds {
		if stale := h.deliveries[d.ID]; stale != nil {
			stale.abort(ErrLeaseLost) // we have claimed the row anew: our older claim is void
		}
		h.deliveries[d.ID] = d
	}
}

// remove forgets deliveries, unless the row has been claimed anew meanwhile.
func (h *held) remove(ds ...*delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		if h.deliveries[d.ID] == d {
			delete(h.deliveries, d.ID)
		}
	}
}

func (h *held) has(d *delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deliveries[d.ID] == d
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.deliveries)
}

func (h *held) snapshot() []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	ds := make([]*delivery, 0, len(h.deliveries))
	for _, d := range h.deliveries {
		ds = append(ds, d)
	}
	return ds
}

func (h *held) each(f func(*delivery)) {
	for _, d := range h.snapshot() {
		f(d)
	}
}
