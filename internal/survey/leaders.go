package survey

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A Leader is who leads an election of reapers, or led it last.
type Leader struct {
	Name  string
	Term  int64
	Ended float64 // seconds ago; negative while it leads
}

// Leaders are those of a schema, who leads or led last first.
func Leaders(ctx context.Context, r Reader, schema string) ([]Leader, error) {
	return rows[Leader](ctx, r, "leaders", pgx.Identifier{schema, "leader"}.Sanitize())
}
