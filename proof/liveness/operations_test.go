package liveness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// An operation is what a program does that is stopped, or refused, at each of its statements. Another program may do it
// again.
type operation struct {
	name string
	// prepare writes what the program has to work on, under a unique name.
	prepare func(w *world, name string) own
	// run does the work, and returns when it is done or when ctx ends.
	run func(ctx context.Context, w *world, pool *pgxpool.Pool, name string, own own) error
	// same is more work of the same kind, done by others, for example in the same queue.
	same func(ctx context.Context, w *world, name string) error
	// rival is the world's worker that would take the program's work. It runs only after the program has stopped.
	rival string
	// restless programs send the same statements again and again, hundreds of times a second. Once for each sort is
	// enough even at full size.
	restless bool
}

// rowsDone tells that rows are done.
func (w *world) rowsDone(table string, ids ...uuid.UUID) own {
	query := fmt.Sprintf("SELECT count(*) = $2 FROM %s.%s WHERE id = ANY ($1) AND status = 2", w.Schema, table)
	return own{query, []any{ids, len(ids)}}
}

// toTheEnd runs a worker until its work is done.
func (w *world) toTheEnd(ctx context.Context, r runner, own own) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	err := w.until(ctx, "it is done", own.query, own.args...)
	cancel()
	return errors.Join(err, <-ended)
}

var operations = []operation{
	{"a worker of jobs", limitedQueue, func(ctx context.Context, w *world, pool *pgxpool.Pool, name string,
		own own) error {
		return w.toTheEnd(ctx, w.jobWorker(pool, name), own)
	}, sameQueue, "", false},
	{"a drain of jobs", limitedQueue, func(ctx context.Context, w *world, pool *pgxpool.Pool, name string,
		own own) error {
		drain, err := w.jobWorker(pool, name).Drain()
		if err == nil {
			_, err = drain.Process(ctx)
		}
		return err
	}, sameQueue, "", false},
	{"a handler with a transaction", func(w *world, name string) own {
		w.scripts.Store(name, script(func(ctx context.Context,
			settleIn func(context.Context, func(pgx.Tx) error) error) error {
			return settleIn(ctx, func(tx pgx.Tx) error {
				_, err := w.jobs.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: work{"written"}, ByKey: sharedKey})
				return err
			})
		}))
		return limitedQueue(w, name)
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, name string, own own) error {
		return w.toTheEnd(ctx, w.jobWorker(pool, name), own)
	}, sameQueue, "", false},
	{"a relay", func(w *world, name string) own {
		one := outbox.Message{Topic: topic, Key: name}
		var join outbox.Started
		w.inTx(func(tx workqueue.Tx) (err error) {
			join, err = w.outbox.StartJoin(w.Context(), tx, outbox.Join{Steps: []outbox.Message{one, one},
				OnComplete: &one})
			return err
		})
		return w.rowsDone("outbox", append(join.Steps, join.OnComplete)...)
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
		return w.toTheEnd(ctx, w.relay(pool), own)
	}, nil, ofOutbox, false},
	{"a worker of timers", func(w *world, name string) own {
		var set workqueue.Enqueued
		w.inTx(func(tx workqueue.Tx) (err error) {
			set, err = w.timers.Set(w.Context(), tx, timers.Timer{Key: name, Topic: topic})
			return err
		})
		return w.rowsDone("timers", set.ID)
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
		return w.toTheEnd(ctx, w.timerWorker(pool, topic), own)
	}, nil, ofTimers, false},
	{"a dispatcher of alarms", func(w *world, name string) own {
		a, _, err := w.alarms.On(w.Pool).CreateAlarm(w.Context(), alarms.New{
			OwnerDID: name, UserID: name, Kind: alarms.KindOnce, Delay: time.Millisecond, WakeMessage: name,
		})
		w.ok(err)
		return own{"SELECT status = 'fired' FROM " + w.Schema + ".alarms WHERE id = $1", []any{a.ID}}
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
		return w.toTheEnd(ctx, w.timerWorker(pool, topic), own)
	}, nil, ofTimers, false},
	{"a worker of the inbox", func(w *world, name string) own {
		var result inbox.Result
		w.inTx(func(tx workqueue.Tx) (err error) {
			result, err = w.inbox.Receive(w.Context(), tx, inbox.Message{Consumer: consumer, Source: "a",
				MessageID: name})
			return err
		})
		return w.rowsDone("inbox", result.ID)
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
		return w.toTheEnd(ctx, w.receiver(pool), own)
	}, nil, ofInbox, false},
	{"Process of the inbox", func(w *world, name string) own {
		return own{"SELECT count(*) = 1 FROM " + w.Schema + ".inbox WHERE message_id = $1", []any{name}}
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, name string, _ own) error {
		_, err := w.inbox.Process(ctx, pool, inbox.Key{Consumer: "Process", Source: "a",
			MessageID: name}, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
		return err
	}, nil, "", false},
	{"a scheduler", func(w *world, name string) own {
		w.ok(putSchedule(w.Context(), w, name))
		table := w.Schema + ".jobs_schedule"
		w.exec("UPDATE "+table+" SET next_at = now() - interval '1 minute', due_at = now() WHERE name = $1", name)
		return own{"SELECT fired > 0 FROM " + table + " WHERE name = $1", []any{name}}
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, own own) error {
		drain, err := w.scheduler(pool).Drain()
		if err == nil {
			_, err = drain.Process(ctx)
		}
		return err
	}, nil, ofSchedules, false},
	{"a reaper", func(w *world, name string) own {
		id, _, err := w.lost(w.Context(), name)
		w.ok(err)
		w.exec("UPDATE "+w.Schema+".jobs SET locked_until = now() - interval '1 second' WHERE id = $1", id)
		w.exec("UPDATE " + w.Schema + ".leader SET expires_at = now()") // the previous leader was killed
		return own{"SELECT status = 0 FROM " + w.Schema + ".jobs WHERE id = $1", []any{id}}
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, _ string, _ own) error {
		_, err := reaper.RunOnce(ctx, pool, w.tables()[:1], reaper.Options{
			Schema: w.Schema, Interval: 500 * time.Millisecond, Lease: lease, Logger: logger(),
		})
		return err
	}, nil, "", false},
	{"sweeps and folds", func(*world, string) own {
		return own{query: "SELECT true"} // the bystanders leave something to sweep and fold
	}, func(ctx context.Context, w *world, pool *pgxpool.Pool, name string, own own) error {
		for _, table := range w.tables() {
			if _, err := table.On(pool).Sweep(ctx, 1000); err != nil {
				return err
			}
			if _, err := table.On(pool).Fold(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil, "", false},
	announcing,
	{"an application", func(w *world, name string) own {
		return own{"SELECT count(*) > 0 FROM " + w.Schema +
			".jobs WHERE convert_from(args, 'UTF8') = '{\"Name\":\"' || $1 || '\"}'", []any{name}}
	}, application, nil, "", false},
}

// limitedQueue enqueues a job of an ordered key and one of a limited key, in a batch, and in a queue with limits that
// has no other worker. The next row of the ordered key and the batch's continuation are in queues that others serve.
func limitedQueue(w *world, name string) own {
	ctx := w.Context()
	insert := func(queue string, g keyed.Rule) jobs.Insert {
		return jobs.Insert{Args: work{name}, Queue: queue, ByKey: g}
	}
	serial, limited := keyed.Ordered{Key: name}, keyed.Limited{Key: name, MaxRunning: 3}
	after := insert("", nil)
	var batch jobs.StartedBatch
	w.inTx(func(tx workqueue.Tx) (err error) {
		w.ok(w.jobs.SetLimits(ctx, tx, name, jobs.Limits{MaxRunning: 10, Rate: 10_000}))
		batch, err = w.jobs.StartBatch(ctx, tx, jobs.Batch{
			Jobs: []jobs.Insert{insert(name, serial), insert("", serial), insert(name, limited)}, OnComplete: &after,
		})
		return err
	})
	return w.rowsDone("jobs", append(batch.Jobs, batch.OnComplete)...)
}

// sameQueue lets others work on the queue of limitedQueue, also on its limited key.
func sameQueue(ctx context.Context, w *world, name string) error {
	plain, err := w.enqueue(ctx, 3, "beside", jobs.Insert{Queue: name})
	if err != nil {
		return err
	}
	limited, err := w.enqueue(ctx, 3, "beside", jobs.Insert{Queue: name, ByKey: keyed.Limited{Key: name,
		MaxRunning: 3}})
	if err != nil {
		return err
	}
	return w.toTheEnd(ctx, w.jobWorker(w.Pool, name), w.rowsDone("jobs", append(plain, limited...)...))
}

// application is one transaction that enqueues into all tables.
func application(ctx context.Context, w *world, pool *pgxpool.Pool, name string, _ own) error {
	return workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error {
		one := jobs.Insert{Args: work{name}}
		ordered, limited, unique := one, one, one
		ordered.ByKey, limited.ByKey, unique.Unique = keyed.Ordered{Key: name}, sharedKey, &jobs.Unique{}
		if _, err := w.jobs.EnqueueMany(ctx, tx, ordered, limited, unique); err != nil {
			return err
		}
		if _, err := w.jobs.StartBatch(ctx, tx, jobs.Batch{Jobs: []jobs.Insert{one, one},
			OnComplete: &one}); err != nil {
			return err
		}
		if _, err := w.outbox.Enqueue(ctx, tx, outbox.Message{Topic: topic, Key: name}); err != nil {
			return err
		}
		if _, err := w.timers.Set(ctx, tx, timers.Timer{Key: name, Topic: topic}); err != nil {
			return err
		}
		_, err := w.inbox.Receive(ctx, tx, inbox.Message{Consumer: consumer, Source: "a", MessageID: name})
		return err
	})
}
