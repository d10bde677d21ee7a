package liveness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// The holders are transactions of applications that stay open.
func TestApplications(t *testing.T) {
	t.Parallel()
	half := (len(applications) + 1) / 2
	for _, part := range [][]holder{applications[:half], applications[half:]} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			for i, h := range part {
				t.Run(h.name, func(t *testing.T) { w.beside(t, h, i) })
			}
		})
	}
}

var applications = []holder{
	{"a job of an ordered key is enqueued", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: keyed.Ordered{Key: "enqueued"}},
			3, func(tx pgx.Tx, _ []uuid.UUID) error {
				_, err := w.jobs.Enqueue(w.Context(), workqueue.Pgx(tx), jobs.Insert{Args: work{"held"},
					ByKey: keyed.Ordered{Key: "enqueued"}})
				return err
			})
	}},
	{"a job of a limited key is enqueued", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: sharedKey}, 3, func(tx pgx.Tx, _ []uuid.UUID) error {
			_, err := w.jobs.Enqueue(w.Context(), workqueue.Pgx(tx), jobs.Insert{Args: work{"held"}, ByKey: sharedKey})
			return err
		})
	}},
	{"an ordered message is enqueued", func(w *world) func() {
		_, err := w.send(w.Context(), outbox.Message{Topic: topic, Key: "enqueued"})
		w.ok(err)
		return w.opened(func(tx pgx.Tx) error {
			_, err := w.outbox.Enqueue(w.Context(), workqueue.Pgx(tx), outbox.Message{Topic: topic, Key: "enqueued"})
			return err
		})
	}},
	{"a waiting job of an ordered key is cancelled", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: keyed.Ordered{Key: "waiting"}},
			4, func(tx pgx.Tx, ids []uuid.UUID) error {
				return w.cancel(tx, ids[1])
			})
	}},
	{"a running job of an ordered key is cancelled", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: keyed.Ordered{Key: "running"}},
			4, func(tx pgx.Tx, ids []uuid.UUID) error {
				return w.cancel(tx, ids[0])
			})
	}},
	{"a ready job of an ordered key is cancelled", func(w *world) func() {
		return w.whileReady(jobs.Insert{ByKey: keyed.Ordered{Key: "ready"}, Queue: idle}, w.cancel)
	}},
	{"a ready job of a limited key is cancelled", func(w *world) func() {
		return w.whileReady(jobs.Insert{ByKey: sharedKey, Queue: idle}, w.cancel)
	}},
	{"a running job of a limited key is cancelled", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: sharedKey}, 3, func(tx pgx.Tx, ids []uuid.UUID) error {
			return w.cancel(tx, ids[0])
		})
	}},
	{"a running job of a limited queue is cancelled", func(w *world) func() {
		return w.whileRunning(jobs.Insert{Queue: capped}, 3, func(tx pgx.Tx, ids []uuid.UUID) error {
			return w.cancel(tx, ids[0])
		})
	}},
	{"a ready job of a batch is cancelled", func(w *world) func() {
		return w.whileBatch(func(tx pgx.Tx, b jobs.StartedBatch) error { return w.cancel(tx, b.Jobs[0]) })
	}},
	{"a running job of a batch is cancelled", func(w *world) func() {
		return w.whileBatch(func(tx pgx.Tx, b jobs.StartedBatch) error { return w.cancel(tx, b.Jobs[1]) })
	}},
	{"a batch is cancelled", func(w *world) func() {
		return w.whileBatch(func(tx pgx.Tx, b jobs.StartedBatch) error {
			_, err := w.jobs.CancelBatch(w.Context(), workqueue.Pgx(tx), b.ID, "held")
			return err
		})
	}},
	{"a batch is extended", func(w *world) func() {
		return w.whileBatch(func(tx pgx.Tx, b jobs.StartedBatch) error {
			_, err := w.jobs.AddToBatch(w.Context(), workqueue.Pgx(tx), b.ID, jobs.Insert{Args: work{"held"}})
			return err
		})
	}},
	{"a batch is started", func(w *world) func() {
		return w.opened(func(tx pgx.Tx) error {
			_, err := w.jobs.StartBatch(w.Context(), workqueue.Pgx(tx), jobs.Batch{
				Jobs: []jobs.Insert{{Args: work{"held"}}}, OnComplete: &jobs.Insert{Args: work{"held"}},
			})
			return err
		})
	}},
	{"a task of a workflow is cancelled", workflowHeld},
	{"a dead letter of an ordered key is redriven", func(w *world) func() {
		return w.whileRunning(jobs.Insert{ByKey: keyed.Ordered{Key: "redriven"}},
			4, func(tx pgx.Tx, ids []uuid.UUID) error {
				w.inTx(func(tx workqueue.Tx) error {
					_, err := w.jobs.Cancel(w.Context(), tx, "dead", ids[1])
					return err
				})
				return w.redrive(tx, ids[1])
			})
	}},
	{"a dead letter of a batch is redriven", func(w *world) func() {
		return w.whileBatch(func(tx pgx.Tx, b jobs.StartedBatch) error {
			w.inTx(func(tx workqueue.Tx) error {
				_, err := w.jobs.Cancel(w.Context(), tx, "dead", b.Jobs[0])
				return err
			})
			return w.redrive(tx, b.Jobs[0])
		})
	}},
	{"a waiting timer is set and another cancelled", func(w *world) func() {
		w.inTx(func(tx workqueue.Tx) error {
			_, err := w.timers.SetMany(w.Context(), tx, timers.Timer{Key: "set", Topic: topic, Delay: time.Hour},
				timers.Timer{Key: "dropped", Topic: topic, Delay: time.Hour})
			return err
		})
		return w.opened(func(tx pgx.Tx) error {
			if _, err := w.timers.Set(w.Context(), workqueue.Pgx(tx), timers.Timer{Key: "set",
				Topic: topic}); err != nil {
				return err
			}
			_, err := w.timers.Cancel(w.Context(), workqueue.Pgx(tx), "dropped")
			return err
		})
	}},
	{"a timer that fires is set", func(w *world) func() {
		begun, finish := w.busy("firing")
		w.inTx(func(tx workqueue.Tx) error {
			_, err := w.timers.Set(w.Context(), tx, timers.Timer{Key: "firing", Topic: topic,
				Payload: []byte("firing")})
			return err
		})
		w.await("the timer fires", begun)
		end := w.opened(func(tx pgx.Tx) error {
			_, err := w.timers.Set(w.Context(), workqueue.Pgx(tx), timers.Timer{Key: "firing", Topic: topic})
			return err
		})
		finish()
		return end
	}},
	{"a schedule is put and paused", func(w *world) func() {
		w.ok(putSchedule(w.Context(), w, "held"))
		return w.opened(func(tx pgx.Tx) error {
			if err := w.periodic.Put(w.Context(), workqueue.Pgx(tx), jobs.Schedule{Name: "held", Expr: "@every 1h",
				Args: work{"held"}}); err != nil {
				return err
			}
			return w.periodic.Pause(w.Context(), workqueue.Pgx(tx), "held")
		})
	}},
	{"an inbox key is taken", func(w *world) func() {
		return w.opened(func(tx pgx.Tx) error {
			_, err := w.inbox.Begin(w.Context(), workqueue.Pgx(tx), inbox.Key{Consumer: "Process", Source: "a",
				MessageID: "held"})
			return err
		})
	}},
	{"a message is received", func(w *world) func() {
		return w.opened(func(tx pgx.Tx) error {
			_, err := w.inbox.Receive(w.Context(), workqueue.Pgx(tx), inbox.Message{Consumer: consumer, Source: "a",
				MessageID: "held"})
			return err
		})
	}},
	{"a handler is in its own transaction", handlerInTx},
	{"producers of one key never pause", restless},
	{"as many ordered keys are written as one transaction may", manyKeys},
	{"a backup has all tables", func(w *world) func() {
		return w.opened(func(tx pgx.Tx) error {
			_, err := tx.Exec(w.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
			for _, table := range w.list("SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND "+
				"relkind = 'r'", w.Schema) {
				if err == nil {
					_, err = tx.Exec(w.Context(), "LOCK TABLE "+w.Schema+"."+table+" IN ACCESS SHARE MODE")
				}
			}
			return err
		})
	}},
}

// list returns the only column of a query.
func (w *world) list(query string, args ...any) []string {
	w.Helper()
	rows, err := w.Pool.Query(w.Context(), query, args...)
	w.ok(err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.ok(err)
	return list
}

func (w *world) cancel(tx pgx.Tx, id uuid.UUID) error {
	_, err := w.jobs.Cancel(w.Context(), workqueue.Pgx(tx), "held", id)
	return err
}

func (w *world) redrive(tx pgx.Tx, id uuid.UUID) error {
	_, err := w.jobs.Redrive(w.Context(), workqueue.Pgx(tx), "held", id)
	return err
}

// whileRunning enqueues jobs and, while at least the first runs, opens the holder's transaction. Then it lets the
// handlers finish, so that their settles and everything after them meet the holder.
func (w *world) whileRunning(j jobs.Insert, n int, do func(tx pgx.Tx, ids []uuid.UUID) error) func() {
	w.Helper()
	name := uuid.NewString()
	begun, finish := w.busy(name)
	ids, err := w.enqueue(w.Context(), n, name, j)
	w.ok(err)
	w.await("a job runs", begun)
	end := w.opened(func(tx pgx.Tx) error { return do(tx, ids) })
	finish()
	return end
}

// whileReady enqueues jobs that are not claimed until the holder lets go.
func (w *world) whileReady(j jobs.Insert, do func(tx pgx.Tx, id uuid.UUID) error) func() {
	w.Helper()
	ids, err := w.enqueue(w.Context(), 2, "held", j)
	w.ok(err)
	end := w.opened(func(tx pgx.Tx) error { return do(tx, ids[0]) })
	return func() {
		end()
		w.inTx(func(tx workqueue.Tx) error {
			// otherwise it would keep its place in its key
			_, err := w.jobs.Cancel(w.Context(), tx, "it has been held", ids...)
			return err
		})
	}
}

// whileBatch starts a batch of one job that is not claimed and two that run and end while the holder holds.
func (w *world) whileBatch(do func(tx pgx.Tx, b jobs.StartedBatch) error) func() {
	w.Helper()
	name := uuid.NewString()
	begun, finish := w.busy(name)
	ready, running := jobs.Insert{Args: work{name}, Queue: idle}, jobs.Insert{Args: work{name}}
	var b jobs.StartedBatch
	w.inTx(func(tx workqueue.Tx) (err error) {
		b, err = w.jobs.StartBatch(w.Context(), tx, jobs.Batch{Jobs: []jobs.Insert{ready, running, running},
			OnComplete: &ready})
		return err
	})
	w.await("a job of the batch runs", begun)
	end := w.opened(func(tx pgx.Tx) error { return do(tx, b) })
	finish()
	return end
}

func workflowHeld(w *world) func() {
	name := uuid.NewString()
	begun, finish := w.busy(name)
	flow := jobs.NewWorkflow("held")
	flow.Task("ready", jobs.Insert{Args: work{name}, Queue: idle})
	flow.Task("second", jobs.Insert{Args: work{name}}, jobs.After(flow.Task("first", jobs.Insert{Args: work{name}})))
	var started jobs.StartedWorkflow
	w.inTx(func(tx workqueue.Tx) (err error) {
		started, err = w.jobs.StartWorkflow(w.Context(), tx, flow)
		return err
	})
	w.await("the first task runs", begun)
	end := w.opened(func(tx pgx.Tx) error { return w.cancel(tx, started.Tasks["ready"]) })
	finish()
	return end
}

// handlerInTx runs a job of an ordered key, in a batch, whose handler extends the batch and enqueues in the transaction
// that settles the job, and delays its end.
func handlerInTx(w *world) func() {
	name := uuid.NewString()
	inside, leave := make(chan struct{}), make(chan struct{})
	var batch jobs.StartedBatch
	w.scripts.Store(name, script(func(ctx context.Context,
		settleIn func(context.Context, func(pgx.Tx) error) error) error {
		return settleIn(ctx, func(tx pgx.Tx) error {
			if _, err := w.jobs.AddToBatch(ctx, workqueue.Pgx(tx), batch.ID,
				jobs.Insert{Args: work{"added"}}); err != nil {
				return err
			}
			if _, err := w.jobs.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: work{"added"},
				ByKey: sharedKey}); err != nil {
				return err
			}
			close(inside)
			select {
			case <-leave:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}))
	siblings, finish := w.busy(name + " sibling")
	own := jobs.Insert{Args: work{name}, ByKey: keyed.Ordered{Key: "in its transaction"}}
	w.inTx(func(tx workqueue.Tx) (err error) {
		batch, err = w.jobs.StartBatch(w.Context(), tx, jobs.Batch{Jobs: []jobs.Insert{
			own, {Args: work{name + " sibling"}}, {Args: work{name + " sibling"}},
		}})
		return err
	})
	w.await("a sibling runs", siblings)
	w.await("the handler is in its transaction", inside)
	finish()
	release := sync.OnceFunc(func() { close(leave) })
	w.Cleanup(release)
	return release
}

// restless are producers of one key whose transactions overlap endlessly. What they write is delivered meanwhile.
func restless(w *world) func() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				err := pgx.BeginFunc(context.Background(), w.Pool, func(tx pgx.Tx) error {
					_, err := w.outbox.Enqueue(context.Background(), workqueue.Pgx(tx), outbox.Message{Topic: topic,
						Key: "restless"})
					time.Sleep(20 * time.Millisecond) // like an application that has more to write
					return err
				})
				if err != nil {
					w.Errorf("a producer: %v", err)
					return
				}
			}
		})
	}
	release := sync.OnceFunc(func() { stop(); running.Wait() })
	w.Cleanup(release)
	return release
}

// manyKeys writes ordered keys until the next one would be refused: each takes one of the locks that the whole server
// shares.
func manyKeys(w *world) func() {
	var most int
	w.ok(w.Pool.QueryRow(w.Context(), `SELECT current_setting('max_locks_per_transaction')::int *
		(current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) / 4`).Scan(&most))
	return w.opened(func(tx pgx.Tx) (err error) {
		for written := 0; written+manyAtOnce <= most && err == nil; written += manyAtOnce {
			err = w.writeKeys(tx, written)
		}
		return err
	})
}

const manyAtOnce = 500

// writeKeys writes messages with many keys of their own.
func (w *world) writeKeys(tx pgx.Tx, from int) error {
	msgs := make([]outbox.Message, manyAtOnce)
	for i := range msgs {
		msgs[i] = outbox.Message{Topic: topic, Key: fmt.Sprint("many ", from+i)}
	}
	_, err := w.outbox.EnqueueMany(w.Context(), workqueue.Pgx(tx), msgs...)
	return err
}

// Fifteen thousand keys are more than a transaction may write. They are refused before the locks of the server are used
// up, so settles of other keys go on.
func TestTooManyKeysAreRefusedBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	tx, err := w.Pool.Begin(t.Context())
	w.ok(err)
	defer tx.Rollback(context.Background())
	var refused *pgconn.PgError
	for written := 0; err == nil && written < 15_000; written += manyAtOnce {
		err = w.writeKeys(tx, written)
		w.ok(orderedMessages(t.Context(), w, fmt.Sprint("other ", written)))
	}
	if !errors.As(err, &refused) || refused.Code != "54000" {
		t.Errorf("the error is %v, want one that says how many keys there may be", err)
	}
}

// Messages of one key are delivered while its producers continue: the key is not held back until they pause.
func TestRestlessProducersAreKeptUpWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.relay(w.Pool))
	release := restless(w)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := w.until(ctx, "a hundred messages are delivered", "SELECT count(*) >= 100 FROM "+w.Schema+
		".outbox WHERE status = 2")
	release()
	w.ok(err)
	w.settled(t)
}
