package operate

import (
	"context"

	"github.com/txwork/txwork/internal/survey"
)

// A Key is an ordered key with rows that wait.
type Key struct {
	Key     string  `json:"key"`
	Waiting int64   `json:"waiting"`              // rows that wait for their turn
	AtLeast bool    `json:"at_least"`             // there may be more rows that wait
	Oldest  float64 `json:"oldest_seconds"`       // how long the first of them has waited
	Next    string  `json:"next"`                 // the id of that row
	Reason  string  `json:"reason"`               // what it waits for: dead_letter, in_progress, expired, ready, scheduled or fold
	Blocker *string `json:"blocker,omitempty"`    // the id of the row that it waits for
	About   string  `json:"about,omitempty"`      // topic or kind of the blocker
	Error   *string `json:"last_error,omitempty"` // last error of the blocker
}

// Keys are a page of the ordered keys of a table.
type Keys struct {
	Table   string `json:"table"`             // with its schema
	Keys    []Key  `json:"keys"`              // in their order
	Next    string `json:"next,omitempty"`    // for --after; missing on the last page
	Partial bool   `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

// ReadKeys returns at most limit keys of a table after the given one. At most behind rows are counted of each.
func ReadKeys(ctx context.Context, r survey.Reader, f *survey.Facts, after string, limit, behind int) (Keys, error) {
	p := Keys{Table: f.Schema + "." + f.Name, Keys: []Key{}, Partial: f.Filtered}
	found, err := survey.Keys(ctx, r, f, after, limit+1, behind)
	for _, k := range found[:min(len(found), limit)] {
		p.Keys = append(p.Keys, Key{k.Key, k.Waiting, k.Waiting >= int64(behind), k.Oldest, k.Next, k.Reason, k.Blocker,
			k.Label, k.Error})
	}
	if len(found) > limit {
		p.Next = p.Keys[limit-1].Key
	}
	return p, err
}
