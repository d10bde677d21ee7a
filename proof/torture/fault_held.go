//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// heldSnapshot holds an old snapshot, a prepared transaction with locks on rows, and an idle replication slot: vacuum
// cannot remove anything meanwhile, and a few rows wait. What a worker reads must not grow with the dead rows. The pace
// is reported but not judged, since it depends on the machine.
type heldSnapshot struct{ private }

const (
	heldName = "txwork_torture"
	heldRows = 5
	// flat is how many times as many pages may be read for each row. A claim that starts at the first row each time,
	// past all dead ones, reads more than that.
	flat = 3.0
)

func (heldSnapshot) strike(ctx context.Context, l *lab, _ *rand.Rand) (string, error) {
	pages, err := l.probe(ctx)
	if err != nil {
		return "", err
	}
	before, err := l.pace(ctx, time.Second)
	if err != nil {
		return "", err
	}
	l.hit = time.Now()
	tx, err := l.admin.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return "", err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT count(*) FROM "+l.schema+".jobs"); err != nil {
		return "", err
	}
	if _, err := l.admin.Exec(ctx, "SELECT pg_create_physical_replication_slot($1, true)", heldName); err != nil {
		return "", err
	}
	prepared := l.prepareTransaction(ctx)
	during, err := l.pace(ctx, episode)
	pagesHeld, probed := l.probe(ctx)
	if probed == nil && pagesHeld > flat*pages {
		l.fail("with a held snapshot a worker reads %.1f pages a row, and %.1f without", pagesHeld, pages)
	}
	if prepared == nil {
		_, prepared = l.admin.Exec(ctx, "ROLLBACK PREPARED '"+heldName+"'")
	}
	_, dropped := l.admin.Exec(ctx, "SELECT pg_drop_replication_slot($1)", heldName)
	detail := fmt.Sprintf("%.1f pages read a row before, %.1f meanwhile; %.0f versions/s before, %.0f meanwhile", pages,
		pagesHeld, before, during)
	return detail, errors.Join(err, probed, prepared, dropped)
}

// prepareTransaction locks some rows, and leaves the transaction prepared.
func (l *lab) prepareTransaction(ctx context.Context) error {
	conn, err := l.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, statement := range []string{
		"BEGIN",
		fmt.Sprintf("SELECT FROM %s.jobs WHERE completed_at IS NULL LIMIT %d FOR NO KEY UPDATE SKIP LOCKED", l.schema,
			heldRows),
		"PREPARE TRANSACTION '" + heldName + "'",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// pace is how many versions of rows were written in each second.
func (l *lab) pace(ctx context.Context, d time.Duration) (float64, error) {
	from, err := l.lastVersion(ctx)
	if err != nil {
		return 0, err
	}
	time.Sleep(d)
	to, err := l.lastVersion(ctx)
	return float64(to-from) / d.Seconds(), err
}
