package reaper

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
)

const (
	// historyEvery is the shortest time between two calls of history_merge.
	historyEvery = 10 * time.Second
	// historyBatch and historyBatches bound how many rows that processes have flushed one turn adds to the history.
	historyBatch, historyBatches = 1000, 50
)

// A chronicle is what a reaper has to do with the history of a schema.
type chronicle struct {
	merged time.Time
	ended  map[string]Counts // by table: of leases, since the last call
	off    bool              // it cannot be called
	odd    bool              // the log says that there is something that cannot be added
}

// keepHistory adds to the history of the tables that were served. Nothing depends on it: it takes a part of the lease
// at most, a failure is logged once if it is not an outage's, and an outage is logged elsewhere.
func (r *reaper) keepHistory(ctx context.Context, report Report) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Lease/3)
	defer cancel()
	served := map[string][]string{}
	for i, t := range report.Tables {
		if !t.served {
			continue
		}
		spec := r.tables[i].Spec()
		served[spec.Schema] = append(served[spec.Schema], spec.Table)
		c := r.chronicles[spec.Schema]
		if c == nil {
			c = &chronicle{ended: map[string]Counts{}}
			r.chronicles[spec.Schema] = c
		}
		ended := c.ended[spec.Table]
		ended.add(t.Counts)
		c.ended[spec.Table] = ended
	}
	for schema, tables := range served {
		c := r.chronicles[schema]
		if c.off || time.Since(c.merged) < historyEvery {
			continue
		}
		c.merged = time.Now()
		switch err := r.mergeHistory(ctx, schema, tables, c); {
		case postgres.IsOwn(err) && !postgres.IsReadOnly(err):
			c.off = true
			r.logger.InfoContext(ctx, "reaper does not write the history of its tables", "error", err)
		case strings.HasPrefix(postgres.State(err), "22") && !c.odd: // what was flushed cannot be added
			c.odd = true
			r.logger.WarnContext(ctx, "reaper cannot add to the history of its tables", "error", err)
		}
	}
}

func (r *reaper) mergeHistory(ctx context.Context, schema string, tables []string, c *chronicle) error {
	expired, dead := make([]int, len(tables)), make([]int, len(tables))
	for i, table := range tables {
		expired[i], dead[i] = c.ended[table].Requeued+c.ended[table].Failed, c.ended[table].Failed
	}
	function := pgx.Identifier{schema, "history_merge"}.Sanitize()
	for range historyBatches {
		var merged *int
		err := transaction(ctx, r.pool, r.options.Lease, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT "+function+"($1::text[], $2::integer, $3::bigint[], $4::bigint[])", tables,
				historyBatch, expired, dead).Scan(&merged)
		})
		if err == nil && merged == nil {
			return nil // another session is at it: the next call tells of the leases
		}
		for i, table := range tables { // also after an error, which may have come after the commit
			expired[i], dead[i] = 0, 0
			delete(c.ended, table)
		}
		if err != nil || *merged < historyBatch {
			return err
		}
	}
	return nil
}
