//go:build unix

package torture

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
)

// process delivers a message from outside twice at the same time. Only one delivery, or one of an earlier call, may
// process it.
func (p *producer) process() {
	ctx, cancel := context.WithTimeout(context.Background(), txLimit)
	defer cancel()
	name := p.delivered("processed")
	fail := p.random.IntN(10) == 0
	var both sync.WaitGroup
	for range 2 {
		if p.sql {
			both.Go(func() { p.begin(ctx, name, fail) })
			continue
		}
		both.Go(func() { p.deliver(ctx, name, fail) })
	}
	both.Wait()
}

var errOnPurpose = errors.New("on purpose")

func (p *producer) deliver(ctx context.Context, name string, fail bool) {
	var id int64
	names := []announced{announce("inbox", name)}
	key := inbox.Key{Consumer: consumer, Source: topic, MessageID: name}
	result, err := p.domains.inbox.Process(ctx, p.pool, key, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+p.lab.schema+".effects (tbl, name, attempt) VALUES ('inbox', $1, 1)",
			name)
		if err == nil && fail {
			err = errOnPurpose
		}
		id = p.announce(names)
		return err
	})
	switch {
	case id == 0: // it was processed before, or its transaction did not get that far
	case err == nil && result.Answer == inbox.Processed:
		p.settle(id, names, Committed)
	case errors.Is(err, inbox.ErrCommitUnknown):
		p.settle(id, names, Maybe)
	default:
		p.settle(id, names, RolledBack)
	}
}
