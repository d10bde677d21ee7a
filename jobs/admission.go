package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// askEvery is how often a worker asks for the rule of a queue that had none. A queue that has one is asked for
// at every claim, so only the first pause or limit comes into force that late; an end is seen at once.
const askEvery = 500 * time.Millisecond

// A rule is the [workqueue.Admission] of one queue: its pause, its limit, its rate. Whether there is any is
// remembered; what it says is read in the claim's transaction.
type rule struct {
	client *Client
	queue  string

	mu      sync.Mutex
	bounded bool
	asked   time.Time
}

// Bounded implements [workqueue.Admission]. As long as nobody knows, it is.
func (r *rule) Bounded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bounded || time.Since(r.asked) >= askEvery
}

// Admit implements [workqueue.Admission].
func (r *rule) Admit(ctx context.Context, tx pgx.Tx, want int) (n int, again time.Duration, err error) {
	var seconds float64
	var bounded bool
	err = tx.QueryRow(ctx, r.client.statements.admit, r.queue, want).Scan(&n, &seconds, &bounded, nil)
	if err == nil {
		r.learn(bounded)
	}
	return n, time.Duration(seconds * float64(time.Second)), err
}

func (r *rule) learn(bounded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounded, r.asked = bounded, time.Now()
}

// Claimed implements [workqueue.Admission].
func (r *rule) Claimed(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	_, err := workqueue.Exec(ctx, workqueue.Pgx(tx), r.client.statements.take, r.queue, ids)
	return err
}
