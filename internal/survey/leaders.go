package survey

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A Leader is the reaper that maintains a table, or the last one that did.
type Leader struct {
	Table string
	Term  int64
	Ended float64 // seconds ago; negative while it leads

	Problem string // what kept the last maintenance from serving the table to the end; empty: nothing
}

// Leaders returns the leaders of a schema.
func Leaders(ctx context.Context, r Reader, schema string) ([]Leader, error) {
	return rows[Leader](ctx, r, "leaders", pgx.Identifier{schema, "leader"}.Sanitize())
}
