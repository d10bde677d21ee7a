package jobs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// replace gives the holders of unique keys, where they are ready, what their challengers have. It returns the
// ids of those that it changed.
func (c *Client) replace(ctx context.Context, tx workqueue.Tx, list []prepared, challengers map[uuid.UUID]int) (map[uuid.UUID]bool, error) {
	holders := slices.SortedFunc(maps.Keys(challengers), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	n := len(holders)
	keys, args, priorities, due := make([]string, n), make([]any, n), make([]*int64, n), make([]*time.Time, n)
	owners, err := c.owners(ctx, tx, holders)
	if err != nil {
		return nil, err
	}
	for i, id := range holders {
		p := list[challengers[id]]
		if args[i], err = c.encode(ctx, owners[id], argsField, p.args); err != nil { // bound to the holder now
			return nil, fmt.Errorf("txwork: the args of kind %q for job %s: %w", p.kind, id, err)
		}
		priority := int64(p.record.priority)
		keys[i], priorities[i] = p.record.uniqueKey, &priority
		if !p.row.DueAt.IsZero() {
			due[i] = &p.row.DueAt
		}
	}
	changed := make(map[uuid.UUID]bool, n)
	err = workqueue.Query(ctx, tx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		changed[id] = true
		return err
	}, c.statements.replace, holders, keys, args, priorities, due)
	return changed, err
}

// owners are jobs as those that args are encoded for. One that is gone is none of them, and is not changed either.
func (c *Client) owners(ctx context.Context, tx workqueue.Tx, ids []uuid.UUID) (map[uuid.UUID]owner, error) {
	owners := make(map[uuid.UUID]owner, len(ids))
	err := workqueue.Query(ctx, tx, func(scan func(...any) error) error {
		var o owner
		var headers string
		err := scan(&o.id, &o.kind, &headers)
		o.headers = readHeaders(headers)
		owners[o.id] = o
		return err
	}, c.statements.holders, ids)
	return owners, err
}
