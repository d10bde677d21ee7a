package liveness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A bystander needs nothing that the holder has. One unit of its work is written, done by the world's workers, and seen
// to end. Its name is unique.
type bystander struct {
	name string
	unit func(ctx context.Context, w *world, name string) error
}

// sharedKey is a limited key of which holders take at most one place.
var sharedKey = keyed.Limited{Key: "shared", MaxRunning: 10}

var bystanders = []bystander{
	{"plain rows", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 5, jobs.Insert{})
	}},
	{"ordered keys", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 4, jobs.Insert{ByKey: keyed.Ordered{Key: name}})
	}},
	{"limited keys", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 4, jobs.Insert{ByKey: keyed.Limited{Key: name, MaxRunning: 2}})
	}},
	{"same limited key", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 25, jobs.Insert{ByKey: sharedKey}) // more than the limit
	}},
	{"another queue", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 5, jobs.Insert{Queue: other})
	}},
	{"a limited queue", func(ctx context.Context, w *world, name string) error {
		return w.jobsDone(ctx, name, 5, jobs.Insert{Queue: capped})
	}},
	{"batches", batches},
	{"workflows", workflows},
	{"messages", messages},
	{"ordered messages", orderedMessages},
	{"timers", timersFire},
	{"alarms", alarmsFire},
	{"inbox", received},
	{"fetches in SQL", fetched},
	{"Process", processed},
	{"schedules", schedulesFire},
	{"putting schedules", putSchedule},
	{"reaper", reaped},
	{"txwork reap", reapedByCommand},
	{"purge", purged},
	{"reads", reads},
	{"command line", commandLine},
}

// jobsDone enqueues jobs and waits until they are done.
func (w *world) jobsDone(ctx context.Context, name string, n int, j jobs.Insert) error {
	ids, err := w.enqueue(ctx, n, name, j)
	if err != nil {
		return err
	}
	return w.ended(ctx, "jobs", workqueue.Done, ids...)
}

// enqueue writes jobs with the same name.
func (w *world) enqueue(ctx context.Context, n int, name string, j jobs.Insert) (ids []uuid.UUID, err error) {
	j.Args = work{name}
	inserts := slices.Repeat([]jobs.Insert{j}, n)
	err = workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) error {
		enqueued, err := w.jobs.EnqueueMany(ctx, tx, inserts...)
		for _, e := range enqueued {
			ids = append(ids, e.ID)
		}
		return err
	})
	return ids, err
}

func batches(ctx context.Context, w *world, name string) error {
	one := jobs.Insert{Args: work{name}}
	var started jobs.StartedBatch
	err := workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) (err error) {
		started, err = w.jobs.StartBatch(ctx, tx, jobs.Batch{Label: name, Jobs: []jobs.Insert{one, one, one},
			OnComplete: &one})
		return err
	})
	if err != nil {
		return err
	}
	return w.ended(ctx, "jobs", workqueue.Done, started.OnComplete)
}

func workflows(ctx context.Context, w *world, name string) error {
	flow := jobs.NewWorkflow(name)
	first := flow.Task("first", jobs.Insert{Args: work{name}})
	second := flow.Task("second", jobs.Insert{Args: work{name}}, jobs.After(first))
	flow.Task("third", jobs.Insert{Args: work{name}}, jobs.After(first, second))
	var started jobs.StartedWorkflow
	err := workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) (err error) {
		started, err = w.jobs.StartWorkflow(ctx, tx, flow)
		return err
	})
	if err != nil {
		return err
	}
	return w.ended(ctx, "jobs", workqueue.Done, started.Tasks["third"])
}

// send writes messages and returns their ids.
func (w *world) send(ctx context.Context, msgs ...outbox.Message) ([]uuid.UUID, error) {
	var enqueued []workqueue.Enqueued
	err := workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) (err error) {
		enqueued, err = w.outbox.EnqueueMany(ctx, tx, msgs...)
		return err
	})
	return workqueue.IDs(enqueued), err
}

func messages(ctx context.Context, w *world, name string) error {
	one := outbox.Message{Topic: topic, Payload: []byte(name)}
	return w.delivered(ctx, one, one, one, one)
}

func orderedMessages(ctx context.Context, w *world, name string) error {
	one := outbox.Message{Topic: topic, Key: name, Payload: []byte(name)}
	return w.delivered(ctx, one, one, one)
}

func (w *world) delivered(ctx context.Context, msgs ...outbox.Message) error {
	ids, err := w.send(ctx, msgs...)
	if err != nil {
		return err
	}
	return w.ended(ctx, "outbox", workqueue.Done, ids...)
}

// timersFire sets a timer that fires, one that is moved before it fires, and one that is cancelled.
func timersFire(ctx context.Context, w *world, name string) error {
	now, later := timers.Timer{Key: name, Topic: topic}, timers.Timer{Key: name + " moved", Topic: topic,
		Delay: time.Hour}
	dropped := timers.Timer{Key: name + " dropped", Topic: topic, Delay: time.Hour}
	var set []workqueue.Enqueued
	err := workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) (err error) {
		set, err = w.timers.SetMany(ctx, tx, now, later, dropped)
		return err
	})
	if err != nil {
		return err
	}
	later.Delay = 0
	err = workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) error {
		_, setErr := w.timers.Set(ctx, tx, later)
		_, cancelErr := w.timers.Cancel(ctx, tx, dropped.Key)
		return errors.Join(setErr, cancelErr)
	})
	if err != nil {
		return err
	}
	return w.ended(ctx, "timers", workqueue.Done, workqueue.IDs(set[:2])...)
}

func alarmsFire(ctx context.Context, w *world, name string) error {
	a, _, err := w.alarms.On(w.Pool).CreateAlarm(ctx, alarms.New{
		OwnerDID: name, UserID: name, Kind: alarms.KindOnce, Delay: time.Millisecond, WakeMessage: name,
	})
	if err != nil {
		return err
	}
	return w.until(ctx, "the alarm has fired", "SELECT status = 'fired' FROM "+w.Schema+".alarms WHERE id = $1", a.ID)
}

func received(ctx context.Context, w *world, name string) error {
	var results []inbox.Result
	err := workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) (err error) {
		results, err = w.inbox.ReceiveMany(ctx, tx,
			inbox.Message{Consumer: consumer, Source: "a", MessageID: name}, inbox.Message{Consumer: consumer,
				Source: "b", MessageID: name})
		return err
	})
	if err != nil {
		return err
	}
	return w.ended(ctx, "inbox", workqueue.Done, results[0].ID, results[1].ID)
}

func processed(ctx context.Context, w *world, name string) error {
	result, err := w.inbox.Process(ctx, w.Pool, inbox.Key{Consumer: "Process", Source: "a", MessageID: name},
		func(context.Context, pgx.Tx) error { return nil })
	if err == nil && result.Answer != inbox.Processed {
		err = fmt.Errorf("the answer is %v", result.Answer)
	}
	return err
}

// schedulesFire makes a schedule of its own due.
func schedulesFire(ctx context.Context, w *world, name string) error {
	if err := putSchedule(ctx, w, name); err != nil {
		return err
	}
	table := w.Schema + ".jobs_schedule"
	err := w.until(ctx, "the schedule has been set back", `
		WITH due AS (UPDATE `+table+` SET next_at = now() - interval '1 minute', due_at = now() WHERE name = $1 AND status = 0 RETURNING 1)
		SELECT count(pg_notify($2, '0')) > 0 FROM due`, name, table)
	if err != nil {
		return err
	}
	return w.until(ctx, "the schedule has fired", "SELECT fired > 0 FROM "+table+" WHERE name = $1", name)
}

func putSchedule(ctx context.Context, w *world, name string) error {
	return workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) error {
		return w.periodic.Put(ctx, tx, jobs.Schedule{Name: name, Expr: "@every 10h", Args: work{name}})
	})
}

// lost enqueues a job that a worker has claimed and lost, in a queue that has no worker.
func (w *world) lost(ctx context.Context, name string) (id uuid.UUID, token uuid.UUID, err error) {
	ids, err := w.enqueue(ctx, 1, name, jobs.Insert{Queue: name})
	if err != nil {
		return id, token, err
	}
	token = workqueue.NewOwnerToken()
	rand.Read(token[:6]) // of a process of its own, which loses this lease alone
	claimed, err := w.jobs.Table().On(w.Pool).Claim(ctx, token, lease, 1, name, int16(jobs.Normal))
	if err == nil && len(claimed) != 1 {
		err = fmt.Errorf("%d jobs of queue %s were claimed", len(claimed), name)
	}
	return ids[0], token, err
}

// expired makes a job whose lease has expired, and returns how to tell that it was requeued.
func (w *world) expired(ctx context.Context, name string) (requeued own, err error) {
	id, _, err := w.lost(ctx, name)
	if err == nil {
		_, err = w.Pool.Exec(ctx, "UPDATE "+w.Schema+
			".jobs SET locked_until = now() - interval '1 second' WHERE id = $1", id)
	}
	return own{"SELECT status = 0 FROM " + w.Schema + ".jobs WHERE id = $1", []any{id}}, err
}

func reaped(ctx context.Context, w *world, name string) error {
	requeued, err := w.expired(ctx, name)
	if err != nil {
		return err
	}
	for { // another unit's reaper may be leading at this moment
		_, err := reaper.RunOnce(ctx, w.Pool, w.tables(), reaper.Options{Schema: w.Schema, Logger: logger()})
		if err == nil {
			err = requeued.done(ctx, w)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// reapedByCommand runs the command that does the same, as a cron job would.
func reapedByCommand(ctx context.Context, w *world, name string) error {
	requeued, err := w.expired(ctx, name)
	if err != nil {
		return err
	}
	for { // the world's reaper may have the row locked at this moment
		err := w.command(ctx, "reap")
		if err == nil {
			err = requeued.done(ctx, w)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func purged(ctx context.Context, w *world, name string) error {
	id, token, err := w.lost(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.jobs.Table().On(w.Pool).Ack(ctx, token, []uuid.UUID{id}); err != nil {
		return err
	}
	if _, err := w.Pool.Exec(ctx, "UPDATE "+w.Schema+
		".jobs SET completed_at = now() - interval '30 days' WHERE id = $1", id); err != nil {
		return err
	}
	for _, table := range w.tables() {
		if _, err := table.On(w.Pool).PurgeDone(ctx, workqueue.DefaultRetention, 100); err != nil {
			return err
		}
	}
	return w.until(ctx, "an old job is purged", "SELECT NOT EXISTS (SELECT FROM "+w.Schema+".jobs WHERE id = $1)", id)
}

// reads reads what the command line shows.
func reads(ctx context.Context, w *world, name string) error {
	for _, table := range w.tables() {
		if _, err := table.On(w.Pool).Stats(ctx); err != nil {
			return err
		}
	}
	if _, err := reaper.Leaders(ctx, w.Pool, w.Schema); err != nil {
		return err
	}
	if _, err := reaper.Health(ctx, w.Pool, w.tables()); err != nil {
		return err
	}
	if _, err := w.alarms.On(w.Pool).ListAlarms(ctx, name, 10); err != nil {
		return err
	}
	return workqueue.InTx(ctx, w.Pool, func(tx workqueue.Tx) error {
		_, queues := w.jobs.Queues(ctx, tx)
		_, schedules := w.periodic.List(ctx, tx, periodic.Filter{})
		_, waiting := w.timers.List(ctx, tx, timers.Filter{})
		_, joins := w.outbox.Joins().List(ctx, tx, join.ListOptions{})
		return errors.Join(queues, schedules, waiting, joins)
	})
}

// An own is a query that becomes true when a piece of work is done.
type own struct {
	query string
	args  []any
}

func (o own) done(ctx context.Context, w *world) error {
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return w.until(soon, "it is done", o.query, o.args...)
}
