package security_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// registerKinds registers a job that uses everything a handler can.
func (f *fixture) registerKinds() {
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[printArgs]) error {
		if _, err := jobs.Step(ctx, job, "spool", func(context.Context) (int, error) {
			return job.Args.Page,
				nil
		}); err != nil {
			return err
		}
		if err := job.SetProgress(ctx, 50, "half"); err != nil {
			return err
		}
		return job.Output(ctx, job.Args.Page)
	}, jobs.KindOptions[printArgs]{})
}

// coreTables are all tables that a reaper maintains.
func (f *fixture) coreTables() []*workqueue.Table {
	return []*workqueue.Table{f.outbox.Table(), f.inbox.Table(), f.timers.Table(), f.jobs.Table(), f.own}
}

// Every worker does its work with the worker's role, until all rows of the producer have ended.
func TestAWorkerFinishesEverything(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.as("producer"))
	pool := f.as("worker")
	f.in(pool, f.configure)
	ctx, stop := context.WithTimeout(t.Context(), pgtest.Patience)
	defer stop()
	ended := make(chan error)
	workers := f.workers(pool)
	for _, run := range workers {
		go func() { ended <- run(ctx) }()
	}
	f.finishes(ctx)
	stop()
	for range workers {
		must(t, <-ended)
	}
	if failed := ask[int](f, "SELECT (SELECT count(*) FROM outbox WHERE status = 3) + (SELECT count(*) FROM jobs "+
		"WHERE status = 3)"); failed != 0 {
		t.Errorf("%d rows failed", failed)
	}
	if done := ask[int](f, "SELECT count(*) FROM outbox_join WHERE status = 1"); done != 1 {
		t.Errorf("%d joins completed, want 1", done)
	}
	if steps := ask[int](f, "SELECT count(*) FROM jobs_step"); steps == 0 {
		t.Error("no step is on record")
	}
}

// configure does what workers do at their start: it sets rules of queues and schedules.
func (f *fixture) configure(ctx context.Context, tx workqueue.Tx) error {
	return errors.Join(
		f.jobs.SetLimits(ctx, tx, "slow", jobs.Limits{MaxRunning: 1}),
		f.jobs.Pause(ctx, tx, "idle"),
		f.jobs.Schedules().Put(ctx, tx, jobs.Schedule{Name: "daily", Expr: "@every 1s", Args: printArgs{9}}),
		f.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: "daily", Expr: "@every 1s", Topic: "fired"}),
	)
}

func (f *fixture) workers(pool *pgxpool.Pool) []func(context.Context) error {
	f.t.Helper()
	options := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
	relay, err := outbox.NewRelay(pool, f.outbox, outbox.RelayOptions{WorkerOptions: options})
	must(f.t, err)
	relay.Handle("sent", func(_ context.Context, m *outbox.Delivery) error {
		if m.Attempt == 1 {
			return workqueue.RetryNow(errors.New("once more"))
		}
		return nil
	})
	consumer, err := inbox.NewWorker(pool, f.inbox, inbox.WorkerOptions{Consumer: "c", WorkerOptions: options})
	must(f.t, err)
	consumer.Handle("received", func(context.Context, pgx.Tx, *inbox.Delivery) error { return nil })
	firing, err := timers.NewWorker(pool, f.timers, timers.WorkerOptions{WorkerOptions: options})
	must(f.t, err)
	firing.Handle("fired", func(ctx context.Context, d *timers.Delivery) error {
		return d.Tx(ctx, func(pgx.Tx) error { return nil })
	})
	running, err := jobs.NewWorker(pool, f.jobs, jobs.WorkerOptions{Registry: f.kinds, WorkerOptions: options,
		Queues: []jobs.QueueOptions{{}, {Name: "slow"}}})
	must(f.t, err)
	return []func(context.Context) error{relay.Run, consumer.Run, firing.Run, running.Run}
}

// finishes waits until every row of the domains has ended.
func (f *fixture) finishes(ctx context.Context) {
	f.t.Helper()
	const live = `SELECT (SELECT count(*) FROM outbox WHERE completed_at IS NULL) + (SELECT count(*) FROM inbox WHERE completed_at IS NULL)
		+ (SELECT count(*) FROM timers WHERE completed_at IS NULL AND key = 't1') + (SELECT count(*) FROM jobs WHERE completed_at IS NULL AND schedule IS NULL)`
	for ask[int](f, live) > 0 ||
		ask[int](f, "SELECT count(*) FROM jobs WHERE schedule IS NOT NULL AND status = 2") == 0 {
		select {
		case <-ctx.Done():
			f.t.Fatalf("after a minute %d rows are left", ask[int](f, live))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The worker's role can make every transition of every table, here by hand through the core.
func TestAWorkerMakesEveryTransition(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.as("producer"))
	pool := f.as("worker")
	lanes := map[string][]any{"inbox": {"c"}, "jobs": {"default", 2}}
	f.exec(f.db.Pool, "UPDATE timers SET due_at = now() WHERE status = 0")
	for _, table := range f.coreTables() {
		f.transitions(table.On(pool), table.Spec().Table, lanes[table.Spec().Table])
	}
	_, err := reaper.RunOnce(t.Context(), pool, f.coreTables(), reaper.Options{Schema: f.db.Schema,
		Logger: quiet.Logger})
	must(t, err)
	_, err = reaper.Health(t.Context(), pool, f.coreTables())
	must(t, err)
	_, err = f.inbox.Purge(t.Context(), pool)
	must(t, err)
	result, err := f.inbox.Process(t.Context(), pool, inbox.Key{Consumer: "c", Source: "s",
		MessageID: "processed"}, func(context.Context, pgx.Tx) error { return nil })
	if err != nil || result.Answer != inbox.Processed {
		t.Errorf("process: %v, %v", result.Answer, err)
	}
}

func (f *fixture) transitions(q *workqueue.Queue, table string, lane []any) {
	f.t.Helper()
	f.moves(q, table, lane)
	f.lapse(q, table, lane)
	f.maintains(q, table)
}

// moves claims a row, and redrives it in the end.
func (f *fixture) moves(q *workqueue.Queue, table string, lane []any) {
	f.t.Helper()
	ctx, owner := f.t.Context(), workqueue.NewOwnerToken()
	rows, err := q.Claim(ctx, owner, time.Minute, 1, lane...)
	if err != nil || len(rows) != 1 {
		f.t.Fatalf("%s: claimed %d rows: %v", table, len(rows), err)
	}
	ids := []uuid.UUID{rows[0].ID}
	step := func(name string, changed []uuid.UUID, err error) {
		f.t.Helper()
		if err != nil || len(changed) != 1 {
			f.t.Errorf("%s: %s changed %d rows: %v", table, name, len(changed), err)
		}
	}
	changed, err := q.Extend(ctx, owner, ids, time.Minute)
	step("extend", changed, err)
	changed, err = q.Abandon(ctx, owner, ids, 0, "x")
	step("abandon", changed, err)
	changed, err = q.Cancel(ctx, ids, "x")
	step("cancel", changed, err)
	changed, err = q.Redrive(ctx, ids, "x")
	step("redrive", changed, err)
}

func (f *fixture) maintains(q *workqueue.Queue, table string) {
	f.t.Helper()
	ctx := f.t.Context()
	if _, err := q.Sweep(ctx, 100); err != nil {
		f.t.Errorf("%s: sweep: %v", table, err)
	}
	if _, err := q.PurgeDone(ctx, 0, 10); err != nil {
		f.t.Errorf("%s: purge: %v", table, err)
	}
	if _, err := q.PurgeFailed(ctx, 0, 10); err != nil {
		f.t.Errorf("%s: purge: %v", table, err)
	}
}

// lapse reaps a claim, and then acknowledges and fails further rows.
func (f *fixture) lapse(q *workqueue.Queue, table string, lane []any) {
	f.t.Helper()
	ctx := f.t.Context()
	if _, err := q.Sweep(ctx, 100); err != nil { // a redriven row may wait for its key
		f.t.Errorf("%s: sweep: %v", table, err)
	}
	rows, err := q.Claim(ctx, workqueue.NewOwnerToken(), time.Minute, 1, lane...)
	if err != nil || len(rows) != 1 {
		f.t.Fatalf("%s: claimed %d rows: %v", table, len(rows), err)
	}
	f.exec(f.db.Pool, "UPDATE "+table+" SET locked_until = now() - interval '1 second', due_at = now() - interval '1 "+
		"second' WHERE status = 1")
	if reaped, err := q.ReapExpired(ctx, 10); err != nil || reaped.Requeued != 1 {
		f.t.Errorf("%s: reaped %+v, %v", table, reaped, err)
	}
	f.exec(f.db.Pool, "UPDATE "+table+" SET due_at = now() - interval '1 second' WHERE status = 0 AND NOT waiting")
	owner := workqueue.NewOwnerToken()
	rows, err = q.Claim(ctx, owner, time.Minute, 1, lane...)
	if err != nil || len(rows) != 1 {
		f.t.Fatalf("%s: claimed %d rows after the reap: %v", table, len(rows), err)
	}
	if _, err := q.Fail(ctx, owner, []uuid.UUID{rows[0].ID}, "x"); err != nil {
		f.t.Errorf("%s: fail: %v", table, err)
	}
}

// Workers in other languages call the functions.
func TestAWorkerCallsTheFunctions(t *testing.T) {
	f := newFixture(t)
	f.enqueueEverywhere(f.as("producer"))
	f.exec(f.db.Pool, "UPDATE timers SET due_at = now() WHERE status = 0")
	f.callFunctions(f.as("worker"))
}

// callFunctions makes transitions of one row of each table.
func (f *fixture) callFunctions(pool *pgxpool.Pool) {
	t := f.t
	t.Helper()
	_, err := pool.Exec(t.Context(), "CALL process_beat(42, 'host', 'python', '1')") // not allowed in a transaction
	must(t, err)
	for table, lane := range map[string]string{"outbox": "", "inbox": ", 'c'", "timers": "",
		"jobs": "", "letters": ""} {
		var token uuid.UUID
		must(t, pool.QueryRow(t.Context(), "SELECT owner_token(42)").Scan(&token))
		var ids []uuid.UUID
		must(t, pool.QueryRow(t.Context(), "SELECT ARRAY(SELECT id FROM "+table+"_fetch($1, '60 s', 1"+lane+
			") WHERE entry = 'row')", token).Scan(&ids))
		if len(ids) != 1 {
			t.Fatalf("%s: claimed %d rows", table, len(ids))
		}
		f.exec(pool, "SELECT "+table+"_extend($1, $2, '60 s')", token, ids)
		f.exec(pool, "SELECT "+table+"_retry($1, '{}')", token)
		f.exec(pool, "SELECT "+table+"_fail($1, '{}', 'x')", token)
		f.exec(pool, "SELECT "+table+"_snooze($1, '{}', '1 s')", token)
		f.exec(pool, "SELECT "+table+"_wait_until($1, '{}', '2030-01-01')", token)
		f.exec(pool, "SELECT "+table+"_release($1, '{}')", token)
		f.exec(pool, "SELECT "+table+"_settle('[]')")
		f.exec(pool, "SELECT "+table+"_ack($1, $2)", token, ids)
		f.exec(pool, "SELECT "+table+"_redrive($1)", ids)
		f.exec(pool, "SELECT * FROM "+table+"_reap_expired()")
		for _, procedure := range []string{"_fold()", "_maintain()"} { // not allowed in a transaction
			_, err := pool.Exec(t.Context(), "CALL "+table+procedure)
			must(t, err)
		}
		if status := ask[int](f, "SELECT status FROM "+table+" WHERE id = $1", ids[0]); status != 2 {
			t.Errorf("%s: status %d after the ack, want 2", table, status)
		}
	}
}

func TestAWorkerDeliversAlarms(t *testing.T) {
	f := newFixture(t)
	created := make(chan string, 1)
	f.in(f.as("producer"), func(ctx context.Context, tx workqueue.Tx) error {
		a, _, err := f.alarms.In(tx).CreateAlarm(ctx, alarms.New{OwnerDID: "did:x", UserID: "u", Kind: alarms.KindOnce,
			Delay: time.Second, WakeMessage: "wake"})
		created <- a.ID
		return err
	})
	f.exec(f.db.Pool, "UPDATE timers SET due_at = now(), fire_at = now()")
	ctx, stop := context.WithTimeout(t.Context(), pgtest.Patience)
	defer stop()
	d, err := alarms.NewDispatcher(f.as("worker"), f.alarms,
		alarms.WakerFunc(func(context.Context, alarms.Wake) error { return nil }), alarms.DispatcherOptions{})
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	id := <-created
	for ask[string](f, "SELECT status FROM alarms WHERE id = $1", id) != "fired" {
		select {
		case <-ctx.Done():
			t.Fatal("the alarm was not delivered within a minute")
		case <-time.After(20 * time.Millisecond):
		}
	}
	stop()
	must(t, <-ended)
}

func TestAWorkerRunsNoDDL(t *testing.T) {
	f := newFixture(t)
	worker := f.as("worker")
	f.refusesDDL(worker)
	f.refuses(worker, forbidden, "UPDATE schema_version SET version_id = 0")
	f.refuses(worker, forbidden, "DELETE FROM schema_domain")
}
