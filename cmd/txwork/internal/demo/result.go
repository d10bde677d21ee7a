package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Result is the reckoning. Its JSON fields, in this order, are what scripts read.
type Result struct {
	Enqueued            int64   `json:"enqueued"`              // messages of committed transfers
	Applied             int64   `json:"applied"`               // messages in the ledger
	Lost                int64   `json:"lost"`                  // committed transfers that are not in the ledger
	AppliedTwice        int64   `json:"applied_twice"`         // messages with more than one row in the ledger
	Redelivered         int64   `json:"redelivered"`           // messages that took more than one claim
	RolledBackSeen      int64   `json:"rolled_back_seen"`      // rows of the ledger whose transfer was rolled back
	StaleSettlesRefused int64   `json:"stale_settles_refused"` // settles that came after the claim was lost
	Seconds             float64 `json:"seconds"`               // from the start to the reckoning
	// accounts and ledger agree, and no money was made or lost
	Balanced bool `json:"balanced"`
}

// ErrUnreconciled says that the reconciliation failed.
var ErrUnreconciled = errors.New("the reckoning does not come out")

// Err is nil if nothing was lost, applied twice or applied after a rollback, and the books balance.
func (r Result) Err() error {
	var wrong []string
	for _, count := range []struct {
		n    int64
		what string
	}{
		{r.Lost, "lost"}, {r.AppliedTwice, "applied twice"}, {r.RolledBackSeen, "applied though rolled back"},
	} {
		if count.n != 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	if !r.Balanced {
		wrong = append(wrong, "the books do not balance")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnreconciled, strings.Join(wrong, ", "))
}

// reckon computes the result from the tables. It also checks that as many transfers were committed as planned:
// otherwise the demo itself is wrong and the other numbers prove nothing.
func reckon(ctx context.Context, d *database, p plan, began time.Time) (Result, error) {
	var r Result
	var committed int
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return r, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // it only reads
	err = tx.QueryRow(ctx, statement(d.schema, "reconcile")).Scan(&committed, &r.Enqueued, &r.Applied, &r.Lost,
		&r.AppliedTwice, &r.Redelivered, &r.RolledBackSeen, &r.StaleSettlesRefused, &r.Balanced)
	r.Seconds = math.Round(time.Since(began).Seconds()*100) / 100
	if err == nil && committed != p.committed() {
		err = fmt.Errorf("the demo is at fault: it committed %d transfers, its plan has %d", committed, p.committed())
	}
	return r, err
}
