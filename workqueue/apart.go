package workqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// lockPatience is how long a settle waits for a row that somebody holds locked. It is far longer than
	// renewals and cancels take, which are the only ones of ours to hold a row that is being settled.
	lockPatience = 500 * time.Millisecond
	// apartPause is how long rows that were locked are left alone.
	apartPause = 500 * time.Millisecond
)

// apart are outcomes of rows that somebody holds locked: an application that looks at its job with FOR UPDATE, say,
// and takes its time. They are settled by themselves, so that those of a thousand others need not wait.
type apart struct {
	mu     sync.Mutex
	rows   []pendingSettle
	closed chan struct{} // nothing more comes
}

func (a *apart) add(batch []pendingSettle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rows = append(a.rows, batch...)
}

func (a *apart) take() []pendingSettle {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := slices.Clone(a.rows[:min(len(a.rows), settleBatch)])
	a.rows = a.rows[len(batch):]
	return batch
}

func (a *apart) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.rows) == 0
}

// setApart settles the rows of a batch that nobody holds, and puts the others apart.
func (s *settler) setApart(batch []pendingSettle) {
	free, err := s.unlocked(batch)
	if err != nil {
		s.apart.add(batch)
		return
	}
	isFree := make(map[uuid.UUID]bool, len(free))
	for _, id := range free {
		isFree[id] = true
	}
	var rest []pendingSettle
	for _, p := range batch {
		if isFree[p.id] {
			rest = append(rest, p)
		} else {
			s.apart.add([]pendingSettle{p})
		}
	}
	if len(rest) > 0 {
		s.flush(rest)
	}
}

func (s *settler) unlocked(batch []pendingSettle) (free []uuid.UUID, err error) {
	ids := make([]uuid.UUID, len(batch))
	for i, p := range batch {
		ids[i] = p.id
	}
	err = s.worker.within(s.ctx, s.worker.callLimit(), func(ctx context.Context) error {
		return s.queue.exec.run(ctx, collectIDs(s.worker.table.statements.unlocked, map[string]any{"ids": ids}, &free))
	})
	return free, err
}

// runApart settles what was put apart, until nothing more comes.
func (s *settler) runApart() {
	closed := s.apart.closed
	for {
		select {
		case <-s.ctx.Done():
			s.abandonApart()
			return
		case <-closed:
			if s.apart.empty() {
				return
			}
			closed = nil // the rest is looked at in peace
		case <-time.After(apartPause):
		}
		if batch := s.apart.take(); len(batch) > 0 {
			s.flush(batch)
		}
		if closed == nil && s.apart.empty() {
			return
		}
	}
}

// abandonApart ends the worker's answering for rows that are locked to the last: their leases end.
func (s *settler) abandonApart() {
	for batch := s.apart.take(); len(batch) > 0; batch = s.apart.take() {
		s.done(batch)
	}
}
