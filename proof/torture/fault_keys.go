//go:build unix

package torture

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
)

// manyKeys is a producer that writes thousands of ordered keys in one transaction and delays its end. Rows of these
// keys that were committed before do not wait for it.
func manyKeys() fault {
	return &holders{all: []holder{{"a producer with many ordered keys", writtenKeys}}}
}

const (
	keysWritten = 5000
	keysAtOnce  = 500
	keysBefore  = 20
)

func writtenKeys(ctx context.Context, h *holding) (g grip, err error) {
	several := make([]outbox.Message, keysBefore)
	for i := range several {
		several[i] = outbox.Message{Key: newKey(), ScheduledAt: h.serverTime().Add(2 * soon)}
	}
	g.meanwhile, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.sendPlain(ctx, tx, several...)
	})
	if err != nil {
		return g, err
	}
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) error {
		for range keysWritten / keysAtOnce {
			msgs := make([]outbox.Message, keysAtOnce)
			for i := range msgs {
				msgs[i].Key = newKey()
			}
			if _, err := p.sendPlain(ctx, tx, append(msgs, several...)...); err != nil {
				return err
			}
			several = nil
		}
		return nil
	})
	return g, err
}

// hotKey are producers of one ordered key whose transactions overlap endlessly. What they write must be delivered
// meanwhile.
func hotKey() fault {
	return &holders{all: []holder{{"producers of one key that never pause", restless}}}
}

const (
	restlessProducers = 4
	restlessTx        = 20 * time.Millisecond // like an application that has more to write
	restlessMessages  = 30
)

func restless(ctx context.Context, h *holding) (g grip, err error) {
	writing, stop := context.WithCancel(ctx)
	key := newKey()
	first := make(chan announced, restlessMessages)
	var running sync.WaitGroup
	errs := make([]error, restlessProducers)
	for i := range errs {
		p := newProducer(h.shop, h.pool, h.random.Uint64())
		running.Go(func() {
			if errs[i] = p.writeOn(ctx, writing, key, first); errs[i] != nil {
				stop()
			}
		})
	}
	for len(g.meanwhile) < restlessMessages && writing.Err() == nil {
		select {
		case one := <-first:
			g.meanwhile = append(g.meanwhile, one)
		case <-writing.Done():
		}
	}
	g.release = func() error { stop(); running.Wait(); return errors.Join(errs...) }
	return g, nil
}

// writeOn sends messages of a key until writing ends, and reports those for which the channel has room.
func (p *producer) writeOn(ctx, writing context.Context, key string, tell chan<- announced) error {
	for writing.Err() == nil {
		var one []announced
		err := p.transactSurely(ctx, func(ctx context.Context, tx pgx.Tx) (_ []announced, err error) {
			one, err = p.sendPlain(ctx, tx, outbox.Message{Key: key})
			time.Sleep(restlessTx)
			return one, err
		})
		if err != nil {
			return err
		}
		select {
		case tell <- one[0]:
		default:
		}
	}
	return nil
}
