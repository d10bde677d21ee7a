package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A runForgetter makes the first claim of a run lose its reply.
type runForgetter struct {
	settleForgetter
	lost *atomic.Int64
}

func (f runForgetter) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData) context.Context {
	takes := slices.ContainsFunc(data.Batch.QueuedQueries, func(q *pgx.QueuedQuery) bool {
		return strings.Contains(q.SQL, "RETURNING run.head")
	})
	if takes && f.lost.Load() == 0 {
		conn.PgConn().Conn().(*forgetfulConn).forget.Store(true)
	}
	return ctx
}

// The reply to the claim of a run is lost: nobody knows of its rows. The head is not handled and goes back, so that
// nothing of the key can be claimed before their leases have ended. Then all are handled in order, each once.
func TestTheReplyToTheClaimOfARunIsLost(t *testing.T) {
	t.Parallel()
	const rows = 40
	r := newRunRig(t)
	var lost atomic.Int64
	config := r.pool.Config()
	loseReply(config, new(atomic.Bool), &lost)
	config.ConnConfig.Tracer = runForgetter{lost: &lost}
	observer := r.pool
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	r.ok(err)
	r.Cleanup(pool.Close)
	r.insert(ordered("a", keyed.Block, 0, rows)...)
	var mu sync.Mutex
	var handled []int64
	r.pool = pool
	w := r.batchWorker(workqueue.WorkerOptions{Lease: time.Hour}, 4, func(_ context.Context,
		batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range batch {
			handled = append(handled, c.Body.N)
		}
		return nil, nil
	})
	r.pool = observer
	r.start(w)
	if !pgtest.Await(pgtest.Patience, func() bool { return lost.Load() > 0 }) {
		t.Fatalf("no reply was lost\n%s", r.dump())
	}
	r.eventually("the head is back", "count(*) FILTER (WHERE waiting) = max(n) + 1 - (SELECT min(n) FROM work "+
		"WHERE completed_at IS NULL) - 3 FROM work")
	r.fold()
	if got := r.states(); !regexp.MustCompile(`^(done1 )*waits0( runs1){3}( waits0)*$`).MatchString(got) {
		t.Fatalf("after the loss: %s", got)
	}
	r.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE status = 1")
	_, err = r.queue.ReapExpired(context.Background(), 10)
	r.ok(err)
	r.exec("UPDATE work SET due_at = now() WHERE status = 0")
	r.eventually("all are done", fmt.Sprintf("count(*) = %d FROM work WHERE status = 2", rows))
	mu.Lock()
	defer mu.Unlock()
	for i, n := range handled {
		if int(n) != i {
			t.Fatalf("handled %v", handled)
		}
	}
}

// In one transaction, the handler has written for rows behind one that is snoozed. They go back, so what was written
// for them must not be committed.
func TestABatchTransactionDoesNotWriteForWhatGoesBack(t *testing.T) {
	t.Parallel()
	r := newRunRig(t)
	r.exec("CREATE TABLE effects (n bigint)")
	r.insert(ordered("a", keyed.Block, 0, 9)...)
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 9, func(ctx context.Context,
		batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		return workqueue.BatchTx(ctx, batch, func(tx pgx.Tx) ([]error, error) {
			results := make([]error, len(batch))
			for i, c := range batch {
				if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", c.Body.N); err != nil {
					return nil, err
				}
				if c.Body.N == 5 {
					results[i] = workqueue.Snooze(time.Hour)
				}
			}
			return results, nil
		})
	}))
	r.eventually("the sixth row snoozes", "due_at > now() + interval '1 minute' FROM work WHERE n = 5")
	r.expect("settled", "done1 done1 done1 done1 done1 ready0 waits0 waits0 waits0")
	var effects string
	r.ok(r.pool.QueryRow(context.Background(), "SELECT string_agg(n::text, ' ' ORDER BY n) FROM effects").Scan(&effects))
	if effects != "0 1 2 3 4 5" {
		t.Errorf("written for %s, want the rows up to the sixth, each once", effects)
	}
}

// The last row of a run was lost while its batch ran. A transaction that puts the run back settles the others.
func TestATransactionOfARunWhoseLastRowWasLost(t *testing.T) {
	t.Parallel()
	snooze := workqueue.Snooze(time.Hour)
	for name, settle := range map[string]func(context.Context, []*workqueue.Claim[keyedRow]) ([]error, error){
		"Tx": func(ctx context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
			return make([]error, len(batch)), batch[0].Tx(ctx, func(pgx.Tx) error { return snooze })
		},
		"BatchTx": func(ctx context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
			return workqueue.BatchTx(ctx, batch, func(pgx.Tx) ([]error, error) {
				results := make([]error, len(batch))
				results[0] = snooze
				return results, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunRig(t)
			r.insert(ordered("a", keyed.Block, 0, 12)...)
			var began atomic.Bool
			var calls atomic.Int64
			settled := make(chan error, 1)
			r.start(r.batchWorker(workqueue.WorkerOptions{}, 4, func(ctx context.Context,
				batch []*workqueue.Claim[keyedRow]) ([]error, error) {
				if !began.Load() && len(batch) < 4 { // before the worker has folded
					return nil, nil
				}
				if !began.Swap(true) {
					r.exec(`UPDATE work SET status = 0, waiting = true, owner_token = NULL, locked_until = NULL,
						due_at = now() + interval '1 hour' WHERE n = $1`, batch[3].Body.N)
					return nil, errors.New("no")
				}
				if calls.Add(1) > 20 {
					return nil, errors.New("too many calls")
				}
				results, err := settle(ctx, batch)
				if err != nil {
					t.Error(err)
				}
				select {
				case settled <- err:
				default:
				}
				return results, err
			}))
			receive(t, settled, "a transaction")
			r.eventually("the run went back", "bool_and(status <> 1) FROM work")
			if got := r.states(); !regexp.MustCompile(`^(done1 )*ready0 waits0 waits0 waits1( waits0)*$`).MatchString(got) ||
					calls.Load() > 3 {
				t.Errorf("after %d calls: %s", calls.Load(), got)
			}
		})
	}
}
