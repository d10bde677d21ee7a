package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Enqueue writes a job in the application's transaction: it runs if and only if that commits.
//
// Check the error. An invalid job is a [*workqueue.InvalidError], which also matches [ErrUnknownKind] if the client has
// a registry that does not hold the kind. A taken key, with [Reject], is a [*UniqueError]. The transaction remains
// usable then. After any other error roll it back.
func (c *Client) Enqueue(ctx context.Context, tx workqueue.Tx, i Insert) (workqueue.Enqueued, error) {
	enqueued, err := c.EnqueueMany(ctx, tx, i)
	if err != nil {
		return workqueue.Enqueued{}, err
	}
	return enqueued[0], nil
}

// EnqueueMany is [Client.Enqueue] for any number of jobs, in as few statements as possible. The results are in the
// order of the jobs; without jobs it does nothing. Every job is validated before the first is written; an
// [*workqueue.ItemError] says which one was refused and why.
func (c *Client) EnqueueMany(ctx context.Context, tx workqueue.Tx, inserts ...Insert) ([]workqueue.Enqueued, error) {
	b, err := c.prepare(ctx, inserts)
	if err != nil {
		return nil, err
	}
	if b.delayed {
		if err := c.delay(ctx, tx, b.list); err != nil {
			return nil, err
		}
	}
	switch {
	case len(b.rules) > 1: // in the same order in every transaction, to avoid deadlocks; the insert takes that of one
		if err := keyed.Lock(ctx, tx, c.table, b.rules...); err != nil {
			return nil, err
		}
	case b.unique && len(b.rules) == 0:
		slices.SortStableFunc(b.list, byUniqueKey)
	}
	return c.write(ctx, tx, b.list)
}

// byUniqueKey is the order in which unique jobs are written, so that two calls that write the same keys meet at the
// first key they share and cannot deadlock. A call with concurrency keys (ByKey) is not sorted, because its order is
// the order in which the jobs enter their keys.
func byUniqueKey(a, b prepared) int { return cmp.Compare(a.record.uniqueKey, b.record.uniqueKey) }

// delay converts delays to due times, by the database's clock.
func (c *Client) delay(ctx context.Context, tx workqueue.Tx, list []prepared) error {
	var now time.Time
	err := c.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&now) },
		"SELECT pg_catalog.clock_timestamp()")
	for i := range list {
		if list[i].delay > 0 {
			list[i].row.DueAt = now.Add(list[i].delay)
		}
	}
	return err
}

// write inserts jobs. Then it replaces the holders of their unique keys, where jobs ask for that.
func (c *Client) write(ctx context.Context, tx workqueue.Tx, list []prepared) ([]workqueue.Enqueued, error) {
	rows := make([]workqueue.NewRow, len(list))
	for i := range list {
		rows[i] = list[i].row
	}
	inserted, err := c.table.Insert(ctx, tx, rows...)
	if err != nil {
		return nil, err
	}
	enqueued := make([]workqueue.Enqueued, len(list))
	var replacing map[uuid.UUID]prepared
	for i, in := range inserted {
		p := &list[i]
		enqueued[p.index] = in
		if p.unique == nil || !p.meets(in) {
			continue
		}
		switch p.unique.OnConflict {
		case Reject:
			return nil, &UniqueError{Index: p.index, Kind: p.record.kind, ID: in.ID}
		case Replace:
			if replacing == nil {
				replacing = map[uuid.UUID]prepared{}
			}
			replacing[in.ID] = *p // the last of several jobs wins
		}
	}
	if replacing == nil {
		return enqueued, nil
	}
	replaced, err := c.replace(ctx, tx, replacing)
	for _, p := range list {
		e := &enqueued[p.index]
		e.Replaced = replaced[e.ID] && p.meets(*e) && p.replaces()
	}
	return enqueued, err
}

// meets reports that another job holds the unique key. A job that is written once may have been written before instead.
func (p *prepared) meets(e workqueue.Enqueued) bool {
	return e.Duplicate && !(p.row.Once && e.ID == p.row.ID)
}

func (p *prepared) replaces() bool { return p.unique != nil && p.unique.OnConflict == Replace }
