package reaper

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// unserved are the tables beside the reaper's own that it was not given and no other reaper serves. A dead worker's
// claims on them stay for ever, and nothing else tells.
func (r *reaper) unserved(ctx context.Context) []string {
	schemas := []string{r.options.Schema}
	for _, table := range r.tables {
		schemas = append(schemas, table.Spec().Schema)
	}
	text := statement("unserved", "leader", pgx.Identifier{r.options.Schema, leaderTable})
	var names []string
	err := r.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, text, schemas)
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
		r.logger.WarnContext(ctx, "reaper could not look for tables that nobody maintains", "error", err)
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.names, name) })
	if len(names) > 0 {
		r.logger.WarnContext(ctx, "no reaper maintains some tables of txwork: their expired leases are never requeued "+
			"and their old rows never deleted; name them in service.Options.Tables or pass them to reaper.Run, or run "+
			"txwork reap from cron", "unserved", names)
	}
	return names
}
