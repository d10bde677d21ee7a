package demo

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// claims are the messages that a worker process has claimed and not settled, including those that no handler has begun.
// A process that is frozen or dead cannot be asked, so it reports them beforehand.
type claims struct {
	mu   sync.Mutex
	held map[uuid.UUID]struct{}
}

// observe is a [workqueue.Observer].
func (c *claims) observe(_ context.Context, e workqueue.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[uuid.UUID]struct{}{}
	}
	for _, id := range e.IDs {
		switch e.Operation {
		case "claim":
			c.held[id] = struct{}{}
		case "settle":
			delete(c.held, id)
		}
	}
}

func (c *claims) ids() []uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.held))
}
