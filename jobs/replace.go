package jobs

import (
	"bytes"
	"context"
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
	for i, id := range holders {
		p := list[challengers[id]]
		sealed, err := c.seal(Binding{ID: id, Kind: p.kind, Field: "args"}, p.plain) // bound to the holder now
		if err != nil {
			return nil, workqueue.Invalid("args", "of kind %q cannot be sealed: %v", p.kind, err)
		}
		priority := int64(p.record.priority)
		keys[i], args[i], priorities[i] = p.record.uniqueKey, sealed, &priority
		if !p.row.DueAt.IsZero() {
			due[i] = &p.row.DueAt
		}
	}
	changed := make(map[uuid.UUID]bool, n)
	err := workqueue.Query(ctx, tx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		changed[id] = true
		return err
	}, c.statements.replace, holders, keys, args, priorities, due)
	return changed, err
}
