//go:build unix

package torture

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/proof/torture/sqlcrew"
)

// readBySQL reads the subscriptions of the SQL crew until ctx is cancelled.
func (h *handlers) readBySQL(ctx context.Context, config *pgx.ConnConfig) {
	var all sync.WaitGroup
	for _, r := range subscriptions {
		if r.only == goCrew {
			continue
		}
		reader := &sqlcrew.Reader{
			Connect: config, Schema: h.setup.Schema, Subscription: r.Name, Lease: lease, Poll: h.setup.poll(),
			Page: logPage, InTransactions: h.setup.Freeze != "",
			Fetched: func() { h.points.reach(pointClaimed) }, Settled: func() { h.points.reach(pointSettled) },
			Handle: func(ctx context.Context, m *sqlcrew.Message) sqlcrew.Outcome {
				return sqlOutcome(h.logged(ctx, r, m.ID, m.Key != "", 1, m.Payload), 1)
			},
		}
		all.Go(func() { reader.Run(ctx) })
	}
	all.Wait()
}

// parkedBySQL handles a parked message of the subscription that only the SQL crew reads.
func (h *handlers) parkedBySQL(ctx context.Context, r *sqlcrew.Row) sqlcrew.Outcome {
	for _, s := range subscriptions {
		if s.Name == bySQLOnly {
			return sqlOutcome(h.logged(ctx, s, r.Name, true, r.Attempt, r.Payload), r.Attempt)
		}
	}
	panic("there is no subscription " + bySQLOnly)
}
