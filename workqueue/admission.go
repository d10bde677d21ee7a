package workqueue

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// An Admission bounds a worker's claims by rules that the rows do not know of: pauses, limits, rates.
// Claims through [Queue] and the SQL functions do not ask it.
type Admission interface {
	// Bounded tells, without asking the database, whether claims need Admit. It may lag behind
	// the rules by as long as those may take to come into force.
	Bounded() bool

	// Admit is called in the claim's transaction, before it. It returns how many of want rows may be
	// claimed and, if that is less, after how long to ask again; 0 leaves that to the poll interval.
	Admit(ctx context.Context, tx pgx.Tx, want int) (n int, again time.Duration, err error)

	// Claimed is called in the same transaction with the ids of the rows that were claimed.
	Claimed(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error
}

// A beginner opens transactions: a pool, or a transaction of the application, whose are savepoints.
type beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// savepoints begins transactions inside one of the application.
type savepoints struct{ tx pgx.Tx }

func (s savepoints) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) {
	return s.tx.Begin(ctx)
}

// admitted claims what the admission lets pass, in one transaction with its bookkeeping. A panic of the
// admission is an error.
func (c *claimer) admitted(ctx context.Context, req *claimRequest) (rows []claimedRow, err error) {
	defer recoverTo(&err)
	c.askAgain = time.Time{}
	if c.admission == nil || !c.admission.Bounded() {
		return c.queue.claim(ctx, *req)
	}
	err = pgx.BeginTxFunc(ctx, c.begins, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		n, again, err := c.admission.Admit(ctx, tx, req.limit)
		if err != nil {
			return err
		}
		if again > 0 && n < req.limit {
			c.askAgain = time.Now().Add(again)
		}
		if n <= 0 {
			return nil
		}
		req.limit = min(n, req.limit)
		rows, err = (&Queue{table: c.queue.table, exec: executorOf(tx, c.begins)}).claim(ctx, *req)
		if err != nil || len(rows) == 0 {
			return err
		}
		return c.admission.Claimed(ctx, tx, rowIDs(rows))
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// admissionDue tells how long until the admission is to be asked again; negative: it did not say.
func (c *claimer) admissionDue() time.Duration {
	if c.askAgain.IsZero() {
		return -1
	}
	return max(time.Until(c.askAgain), 0)
}
