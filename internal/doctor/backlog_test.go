package doctor_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// relays runs a relay with a handler for one topic until a condition holds.
func (w *ward) relays(topic string, until func() bool) {
	w.Helper()
	relay, err := outbox.NewRelay(w.Pool, w.box, outbox.RelayOptions{})
	if err != nil {
		w.Fatal(err)
	}
	relay.Handle(topic, func(context.Context, *outbox.Delivery) error { return nil })
	w.while(relay.Run, until)
}

// while runs a function until a condition holds.
func (w *ward) while(run func(context.Context) error, until func() bool) {
	w.Helper()
	ctx, stop := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.becomes("what runs", until)
	stop()
	must(w, <-done)
}

func TestRowsThatNobodyClaims(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 4)...)
	w.enqueueJobs("mail", 2)
	w.goneNow("unserved", nil) // the rows have only just arrived
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'; UPDATE jobs SET due_at = now() - interval '10 " +
		"minutes'")
	f := w.finds("unserved", []string{"outbox: 4 ready rows", "60 min"})
	if f.Severity != doctor.Critical {
		t.Errorf("finding %+v", f)
	}
	w.finds("unserved", []string{"jobs, queue mail: 2 ready rows", "10 min"})
	if all := w.all("backlog"); len(all) > 0 {
		t.Errorf("it is told twice: %+v", all)
	}
	w.relays("a", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status <> 2") == 0 })
	w.goneAfter(f, byWord, []string{"outbox"})
}

// workers runs a worker of some priorities of a queue until a condition holds.
func (w *ward) workers(queue string, until func() bool, priorities ...jobs.Priority) {
	w.Helper()
	r := jobs.NewRegistry()
	jobs.Register(r, func(context.Context, *jobs.Job[letter]) error { return nil }, jobs.KindOptions[letter]{})
	worker, err := jobs.NewWorker(w.Pool, w.jobs, jobs.WorkerOptions{Registry: r,
		Queues: []jobs.QueueOptions{{Name: queue, Priorities: priorities}}})
	must(w, err)
	w.while(worker.Run, until)
}

// Workers of some priorities of a queue serve no others, whose jobs wait for ever.
func TestAPriorityThatNobodyServes(t *testing.T) {
	w := newWard(t)
	low := w.enqueueJobs("mail", 2)
	w.exec("UPDATE jobs SET priority = 3, due_at = now() - interval '1 hour'")
	w.enqueueJobs("mail", 3)
	left := func() int { return ask[int](w, "SELECT count(*) FROM jobs WHERE status <> 2") }
	w.workers("mail", func() bool { return left() == len(low) }, jobs.High, jobs.Normal)
	f := w.finds("unserved", []string{"jobs, queue mail, priority 3: 2 ready rows and no worker claims them", "60 min",
		"--queue mail"})
	if all := append(w.all("unserved")[1:], w.all("backlog")...); len(all) > 0 {
		t.Errorf("it is told twice: %+v", all)
	}
	w.workers("mail", func() bool { return left() == 0 })
	w.goneAfter(f, byWord, nil)
}

// If the workers of a queue have no place left, nobody can tell whether one of them would take a priority of which
// nothing runs. Once they have claimed so often that each would have begun with that priority, none serves it.
func TestAPriorityBehindBusyWorkers(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("mail", 1)
	w.exec("UPDATE jobs SET priority = 3, due_at = now() - interval '1 hour'")
	w.enqueueJobs("mail", 30)
	claim := func() (uuid.UUID, []workqueue.Row) {
		owner := workqueue.NewOwnerToken()
		rows, err := w.jobs.Table().On(w.Pool).Claim(t.Context(), owner, time.Minute, 1, "mail", int16(jobs.Normal))
		must(t, err)
		return owner, rows
	}
	claim()
	w.goneNow("unserved", nil)
	w.finds("backlog", []string{"jobs, queue mail", "Nothing of priority 3 has started in the last 2 min"})
	for range 16 {
		owner, rows := claim()
		_, err := w.jobs.Table().On(w.Pool).Ack(t.Context(), owner, ids(rows))
		must(t, err)
	}
	w.finds("unserved", []string{"jobs, queue mail, priority 3: 1 ready row"})
	w.goneNow("backlog", nil)
}

// Who cancels a row serves nothing.
func TestACancelServesNothing(t *testing.T) {
	w := newWard(t)
	all := w.enqueue(messages("a", 2)...)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	_, err := w.queue().Cancel(t.Context(), all[:1], "not needed")
	must(t, err)
	w.finds("unserved", []string{"outbox: 1 ready row"})
}

// A worker that has died completed rows some time ago, or left rows whose leases expire.
func TestAWorkerThatHasGoneServesNothing(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 6)...)
	owner := workqueue.NewOwnerToken()
	rows, err := w.queue().Claim(t.Context(), owner, time.Minute, 3)
	must(t, err)
	_, err = w.queue().Ack(t.Context(), owner, ids(rows[:1]))
	must(t, err)
	w.exec("UPDATE outbox SET due_at = now() - interval '3 minutes' WHERE status = 0")
	w.goneNow("unserved", nil) // a row has just ended
	w.exec("UPDATE outbox SET completed_at = now() - interval '150 seconds' WHERE status = 2")
	w.goneNow("unserved", nil) // two rows are in progress
	w.exec("UPDATE outbox SET locked_until = now() - interval '90 seconds' WHERE status = 1")
	w.finds("unserved", []string{"outbox: 3 ready rows", "3 min"})
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour' WHERE status = 0")
	w.goneNow("backlog", nil)
}

func TestABacklog(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 10)...)
	owner := workqueue.NewOwnerToken()
	rows, err := w.queue().Claim(t.Context(), owner, time.Minute, 3)
	must(t, err)
	w.exec("UPDATE outbox SET due_at = now() - interval '10 minutes' WHERE status = 0")
	w.finds("backlog", []string{"outbox: 7 ready rows, the oldest for 10 min", "nothing has ended in the last minute"})

	_, err = w.queue().Ack(t.Context(), owner, ids(rows))
	must(t, err)
	f := w.finds("backlog", []string{"outbox: 7 ready rows", "growing: 10 rows arrived in the last minute, 3 ended"})
	if f.Severity != doctor.Warning {
		t.Errorf("finding %+v", f)
	}
	// The rows now seem to have arrived a day ago, since their ids begin with that time.
	w.exec(`UPDATE outbox SET id = overlay(id::text PLACING '0190' FROM 1 FOR 4)::uuid`)
	w.finds("backlog", []string{"drained in about", "0 rows arrived in the last minute, 3 ended"})
	w.exec("UPDATE outbox SET due_at = now() - interval '5 hours' WHERE status = 0")
	if f := w.finds("backlog", []string{"outbox"}); f.Severity != doctor.Critical {
		t.Errorf("finding %+v", f)
	}
	if all := w.all("unserved"); len(all) > 0 {
		t.Errorf("it is told twice: %+v", all)
	}
	w.relays("a", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status <> 2") == 0 })
	w.goneAfter(f, byWord, nil)
}

func TestAPausedQueueWithABacklog(t *testing.T) {
	w := newWard(t)
	w.enqueueJobs("mail's", 3)
	w.in(func(tx workqueue.Tx) error { return w.jobs.Pause(t.Context(), tx, "mail's") })
	w.goneNow("queue-paused", nil)
	w.exec("UPDATE jobs SET due_at = now() - interval '1 hour'")
	f := w.finds("queue-paused", []string{"jobs, queue mail's", "3 ready rows", `txwork jobs resume 'mail'\''s'`})
	for _, other := range []string{"unserved", "backlog", "queue-saturated"} {
		w.goneNow(other, nil)
	}
	w.mends(f, nil)
}

func TestTopicsWithRowsAside(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("mail's", 3)...)
	w.exec("SELECT outbox_pause('mail''s')")
	_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	must(t, err)
	w.goneNow("topic-paused", nil)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	f := w.finds("topic-paused", []string{"outbox, topic mail's", "3 rows aside", `txwork outbox resume 'mail'\''s'`})
	for _, other := range []string{"unserved", "backlog", "topic-behind", "stuck-join", "fold-behind"} {
		w.goneNow(other, nil)
	}
	w.mends(f, nil)
	f = w.finds("topic-behind", []string{"outbox, topic mail's", "3 rows aside", "not paused"})
	w.relays("mail's", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status <> 2") == 0 })
	w.goneAfter(f, byWord, nil)
}

// A topic whose destination is unavailable goes on by itself when it is back.
func TestATopicWhoseDestinationIsUnavailable(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("mail's", 3)...)
	token := workqueue.NewOwnerToken()
	rows, err := w.queue().Claim(t.Context(), token, time.Minute, 1)
	must(t, err)
	_, err = w.queue().Unavailable(t.Context(), token, []uuid.UUID{rows[0].ID}, "connection refused")
	must(t, err)
	w.goneNow("topic-unavailable", nil)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	w.exec("UPDATE outbox_topic SET unavailable_since = now() - interval '1 hour'," +
		" rests_until = now() + interval '1 hour', longest_rest = '1 hour'")
	_, err = w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	must(t, err)
	f := w.finds("topic-unavailable", []string{"outbox, topic mail's", "for 60 min", "3 rows aside"})
	for _, other := range []string{"unserved", "backlog", "topic-behind", "topic-paused"} {
		w.goneNow(other, nil)
	}
	w.exec("UPDATE outbox_topic SET rests_until = now()")
	w.relays("mail's", func() bool { return ask[int](w, "SELECT count(*) FROM outbox WHERE status <> 2") == 0 })
	w.goneAfter(f, byWord, nil)
}

// Names that a terminal would obey are quoted in titles, and the SQL for them can be pasted and works.
func TestNamesInTitlesAreQuoted(t *testing.T) {
	const name = "a'\x1b[31m\\\u200b"
	w := newWard(t)
	w.enqueue(messages(name, 3)...)
	w.exec("SELECT outbox_pause($1)", name)
	_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	must(t, err)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	f := w.finds("topic-paused", []string{`outbox, topic "a'\x1b[31m\\\u200b"`, `E'a''\U0000001B[31m\\\U0000200B'`})
	w.exec(f.Remedy.SQL[0])
	if n := ask[int](w, "SELECT count(*) FROM outbox_topic WHERE paused"); n != 0 {
		t.Errorf("after %q, %d topics are paused", f.Remedy.SQL[0], n)
	}
	w.enqueueJobs(name, 3)
	w.exec("UPDATE jobs SET due_at = now() - interval '1 hour'")
	w.finds("unserved", []string{`jobs, queue "a'\x1b[31m\\\u200b"`})
}

func TestASaturatedQueue(t *testing.T) {
	w := newWard(t)
	w.in(func(tx workqueue.Tx) error {
		return w.jobs.SetLimits(t.Context(), tx, "mail", jobs.Limits{MaxRunning: 2})
	})
	w.enqueueJobs("mail", 5)
	rows, err := w.jobs.Table().On(w.Pool).Claim(t.Context(), workqueue.NewOwnerToken(),
		time.Minute, 10, "mail", int16(2))
	must(t, err)
	if len(rows) != 2 {
		t.Fatalf("%d jobs were claimed", len(rows))
	}
	w.exec("UPDATE jobs SET due_at = now() - interval '1 hour'")
	f := w.finds("queue-saturated", []string{"jobs, queue mail", "3 ready rows", "2 of at most 2", "--max-running 4"})
	w.goneNow("backlog", nil)
	w.in(func(tx workqueue.Tx) error {
		return w.jobs.SetLimits(t.Context(), tx, "mail", jobs.Limits{MaxRunning: 4})
	})
	w.goneAfter(f, byWord, nil)
	w.finds("backlog", []string{"queue mail"}) // the queue has room, and still jobs wait
}

// A rate holds back jobs only while it lets none start: a queue with a rate that nobody serves is not saturated.
func TestAQueueWithARate(t *testing.T) {
	w := newWard(t)
	w.in(func(tx workqueue.Tx) error {
		return w.jobs.SetLimits(t.Context(), tx, "mail", jobs.Limits{Rate: 0.001, Burst: 2})
	})
	w.enqueueJobs("mail", 5)
	w.exec("UPDATE jobs SET due_at = now() - interval '1 hour'")
	w.finds("unserved", []string{"jobs, queue mail: 5 ready rows"})
	w.goneNow("queue-saturated", nil)

	rows, err := w.jobs.Table().On(w.Pool).Claim(t.Context(), workqueue.NewOwnerToken(),
		time.Minute, 10, "mail", int16(2))
	must(t, err)
	if len(rows) != 2 {
		t.Fatalf("%d jobs were claimed", len(rows))
	}
	w.finds("queue-saturated", []string{"jobs, queue mail: 3 ready rows", "at most 0.001 start a second"})
	w.goneNow("unserved", nil)
	w.goneNow("backlog", nil)

	w.exec("UPDATE jobs_start SET at = at - 3600000000") // the worker has not come again
	w.goneNow("queue-saturated", nil)
	w.finds("backlog", []string{"queue mail"})
}

func TestSchedules(t *testing.T) {
	w := newWard(t)
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	w.in(func(tx workqueue.Tx) error {
		return clock.Schedules().Put(t.Context(), tx,
			timers.Schedule{Name: "report", Expr: "@hourly", Topic: "report", Rule: schedule.Rule{}},
			timers.Schedule{Name: "clean", Expr: "@hourly", Topic: "clean"})
	})
	w.goneNow("schedule-overdue", nil)
	w.exec("UPDATE timers_schedule SET due_at = now() - interval '3 hours', next_at = now() - interval '3 hours' " +
		"WHERE name = 'report'")
	f := w.finds("schedule-overdue", []string{"report", "3 h", "@hourly"})
	w.goneNow("unserved", nil)

	worker, err := timers.NewWorker(w.Pool, clock, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	worker.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	w.while(worker.Run, func() bool { return w.with("schedule-overdue", nil) == nil })
	w.mended(f, byWord)

	w.exec(`UPDATE timers_schedule SET status = 3, completed_at = now(), failed_at = now(), last_error = 'no such zone' WHERE name = 'clean'`)
	w.mends(w.finds("schedule-dead", []string{"clean", "no such zone"}), nil)
}

// A schedule whose every attempt fails is late from its nominal time, although each failure puts off its due time.
func TestAScheduleThatFails(t *testing.T) {
	w := newWard(t)
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(t, err)
	report := timers.Schedule{Name: "report", Expr: "@hourly", Topic: "report"}
	put := func(list ...timers.Schedule) {
		w.in(func(tx workqueue.Tx) error { return clock.Schedules().Put(t.Context(), tx, list...) })
	}
	put(report, timers.Schedule{Name: "waits", Expr: "@hourly", Topic: "report"})
	w.exec("UPDATE timers_schedule SET next_at = now() - interval '28 minutes', due_at = now() - interval '28 minutes', " +
		"template = 'torn' WHERE name = 'report'")
	w.exec("UPDATE timers_schedule SET buffered_at = now() - interval '1 day' WHERE name = 'waits'") // which is no failure
	worker, err := timers.NewWorker(w.Pool, clock, timers.WorkerOptions{})
	must(t, err)
	worker.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	w.while(worker.Run, func() bool { return ask[int](w, "SELECT max(attempts) FROM timers_schedule") >= 2 })
	f := w.finds("schedule-failing", []string{`"report"`, "28 min", "template"})
	w.goneNow("schedule-failing", []string{"waits"})
	w.goneNow("schedule-overdue", nil)
	put(report)
	w.goneAfter(f, byWord, nil)
}
