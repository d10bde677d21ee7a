package demo

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// producers is how many transfers run at the same time.
	producers = 8
	// parentConnections leaves four connections for the reaper and for observing.
	parentConnections = producers + 4
)

// A production makes the transfers of a plan.
type production struct {
	bank  *bank
	plan  plan
	gates []*gate
	next  atomic.Int64
}

// run returns when every transfer is made, or with the first error.
func (p *production) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for range producers {
		running.Go(func() {
			if err := p.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	for _, g := range p.gates {
		g.reach()
	}
	return context.Cause(ctx)
}

func (p *production) work(ctx context.Context) error {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= p.plan.count {
			return nil
		}
		for _, g := range p.gates {
			if err := g.pass(ctx, i); err != nil {
				return err
			}
		}
		if err := p.bank.do(ctx, p.plan, i); err != nil {
			return err
		}
	}
}

// A gate holds up all transfers from one position on until it is opened.
type gate struct {
	at      int
	reached chan struct{}
	opened  chan struct{}
	once    sync.Once
}

func newGate(at int) *gate {
	return &gate{at: at, reached: make(chan struct{}), opened: make(chan struct{})}
}

// pass waits if the gate stands before transfer i.
func (g *gate) pass(ctx context.Context, i int) error {
	if i < g.at {
		return nil
	}
	g.reach()
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reach reports that the production has arrived at the gate.
func (g *gate) reach() { g.once.Do(func() { close(g.reached) }) }

func (g *gate) open() { close(g.opened) }
