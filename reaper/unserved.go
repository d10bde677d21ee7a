package reaper

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// unserved are the tables beside the reaper's own that it was not given. A dead worker's claims on them stay for ever
// unless somebody else reaps them, and nothing else tells.
func (r *reaper) unserved(ctx context.Context) []string {
	schemas, given := []string{r.options.Schema}, make([]string, len(r.tables))
	for i, table := range r.tables {
		schemas, given[i] = append(schemas, table.Spec().Schema), table.Name()
	}
	var names []string
	err := r.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, tablesText, schemas)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if r.noteOutage(err) {
		return nil
	}
	if err != nil {
		r.logger.WarnContext(ctx, "reaper could not look for tables that it does not serve", "error", err)
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) })
	if len(names) > 0 {
		r.logger.WarnContext(ctx, "reaper was not given all tables of txwork: leases that expire in the others are "+
			"requeued only if another election serves them", "unserved", names)
	}
	return names
}
