package workqueue

import (
	"sync"

	"github.com/google/uuid"
)

// inFlight holds the deliveries of a worker from the claim until the settle. The worker renews their leases.
type inFlight struct {
	mu         sync.Mutex
	deliveries map[uuid.UUID]*delivery
}

func (f *inFlight) add(ds []*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deliveries == nil {
		f.deliveries = make(map[uuid.UUID]*delivery)
	}
	for _, d := range ds {
		if stale := f.deliveries[d.ID]; stale != nil {
			stale.abort(ErrLeaseLost) // we have claimed the row anew: our older claim is void
		}
		f.deliveries[d.ID] = d
	}
}

// remove forgets deliveries, unless the row has been claimed anew meanwhile.
func (f *inFlight) remove(ds ...*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		if f.deliveries[d.ID] == d {
			delete(f.deliveries, d.ID)
		}
	}
}

// left takes deliveries out of flight.
func (w *Worker) left(ds ...*delivery) {
	w.inFlight.remove(ds...)
	w.flow.Settled()
}

func (f *inFlight) Has(d *delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deliveries[d.ID] == d
}

func (f *inFlight) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.deliveries)
}

func (f *inFlight) snapshot() []*delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	ds := make([]*delivery, 0, len(f.deliveries))
	for _, d := range f.deliveries {
		ds = append(ds, d)
	}
	return ds
}

func (f *inFlight) each(do func(*delivery)) {
	for _, d := range f.snapshot() {
		do(d)
	}
}
