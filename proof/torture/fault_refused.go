//go:build unix

package torture

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
)

// refusedRows are a few rows among many that the database refuses to settle, as an application's trigger may do. The
// other rows that are claimed and settled with them must be done all the same.
func refusedRows() fault {
	return &holders{all: []holder{{"rows that cannot be settled", refused}}}
}

const (
	refusedOf  = 40
	refusedOne = 10 // one row in so many
)

// sqlstates are refusals that do not depend on the row's data.
var sqlstates = []string{"42501", "54000", "0A000", "XX000"}

func refused(ctx context.Context, h *holding) (g grip, err error) {
	g.detail = "with " + sqlstates[h.random.IntN(len(sqlstates))]
	_, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) (rows []announced, err error) {
		rows, err = p.enqueueTasks(ctx, tx, refusedOf, jobs.Insert{})
		g.meanwhile = nil
		for i, r := range rows {
			if i%refusedOne > 0 {
				g.meanwhile = append(g.meanwhile, r)
			} else if err == nil {
				_, err = tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s.refused VALUES ($1::text::uuid, $2)", h.schema),
					r.name, g.detail[len("with "):])
			}
		}
		return rows, err
	})
	g.release = func() error {
		return h.retry(ctx, func(ctx context.Context) error {
			_, err := h.pool.Exec(ctx, "DELETE FROM "+h.schema+".refused")
			return err
		})
	}
	return g, err
}
