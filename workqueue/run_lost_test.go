package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
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
		forget(conn, "UPDATE ")
	}
	return ctx
}

// Nobody knows of the rows of a run, because the reply to its claim was lost, or a hook has ended the goroutine. The
// head is not handled and goes back, so that nothing of the key can be claimed before their leases have ended. Then all
// are handled in order, each once.
func TestARunOfWhichNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*runRig, *atomic.Int64, workqueue.BatchHandler[keyedRow]) *workqueue.Worker{
		"its reply is lost": func(r *runRig, lost *atomic.Int64,
			handler workqueue.BatchHandler[keyedRow]) *workqueue.Worker {
			config := r.pool.Config()
			loseReply(config, runForgetter{lost: lost}, lost)
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			r.ok(err)
			r.Cleanup(pool.Close)
			through := *r
			through.pool = pool
			return through.batchWorker(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 1}, 4, handler)
		},
		"a hook ends the goroutine": func(r *runRig, lost *atomic.Int64,
			handler workqueue.BatchHandler[keyedRow]) *workqueue.Worker {
			w := r.batchWorker(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 1}, 4, handler)
			batch, err := workqueue.NewBatch(workqueue.BatchOptions{Limit: 4}, nil, handler)
			r.ok(err)
			r.ok(workqueue.SetBatches(w, func(*keyedRow) *workqueue.Batch[keyedRow] {
				if bytes.Contains(debug.Stack(), []byte("takeRuns")) && lost.CompareAndSwap(0, 1) {
					runtime.Goexit()
				}
				return batch
			}, 4))
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunRig(t)
			r.runIsLost(lose)
		})
	}
}

func (r *runRig) runIsLost(lose func(*runRig, *atomic.Int64, workqueue.BatchHandler[keyedRow]) *workqueue.Worker) {
	const rows = 40
	r.insert(ordered("a", keyed.Block, 0, rows)...)
	var lost atomic.Int64
	var mu sync.Mutex
	var handled []int64
	r.start(lose(r, &lost, func(_ context.Context, batch []*workqueue.Claim[keyedRow]) ([]error, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range batch {
			handled = append(handled, c.Body.N)
		}
		return nil, nil
	}))
	if !pgtest.Await(pgtest.Patience, func() bool { return lost.Load() > 0 }) {
		r.Fatalf("no run was lost\n%s", r.dump())
	}
	r.eventually("the head is back", "(SELECT waiting FROM work WHERE completed_at IS NULL ORDER BY n LIMIT 1)")
	r.fold()
	if got := r.states(); !regexp.MustCompile(`^(done1 )*waits0( runs1){3}( waits0)*$`).MatchString(got) {
		r.Fatalf("after the loss: %s", got)
	}
	r.exec("UPDATE work SET locked_until = now() - interval '1 second' WHERE status = 1")
	_, err := r.queue.ReapExpired(context.Background(), 10)
	r.ok(err)
	r.exec("UPDATE work SET due_at = now() WHERE status = 0")
	r.eventually("all are done", fmt.Sprintf("count(*) = %d FROM work WHERE status = 2", rows))
	mu.Lock()
	defer mu.Unlock()
	for i, n := range handled {
		if int(n) != i {
			r.Fatalf("handled %v", handled)
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
	r.start(r.batchWorker(workqueue.WorkerOptions{}, 9, writesEffects(5, workqueue.Snooze(time.Hour))))
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
