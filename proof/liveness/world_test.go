package liveness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(withCommand{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(built)
		os.Exit(code)
	}))
}

const (
	// patience is how long a bystander may take for something that normally takes milliseconds.
	patience = pgtest.Patience
	// lease is the lease of every worker here. It is long enough for an overloaded machine.
	lease = 3 * time.Second
	// lookEvery is how often a bystander checks whether its work is done. It is not shorter, because there are many
	// bystanders.
	lookEvery = 10 * time.Millisecond
	// poolSize is the size of a world's pool, which its workers, holders and bystanders share.
	poolSize = 24
)

// worlds bounds how many worlds exist at once. Each keeps both processors busy, and uses about forty of the test
// server's 200 connections: a pool, its workers' sessions, and those of the programs that are stopped or refused.
var worlds = make(chan struct{}, 3)

// Queues of jobs. The queue idle has no worker, so its jobs stay ready.
const (
	other  = "other"
	capped = "capped"
	idle   = "idle"
)

// served are the queues of a world's worker.
var served = []string{jobs.DefaultQueue, other, capped}

// topic is the topic of all messages and timers, consumer the consumer of all received messages.
const (
	topic    = "topic"
	consumer = "consumer"
)

var atOnce = workqueue.Retry{Growth: workqueue.Constant}

// work is the args of every job.
type work struct{ Name string }

func (work) Kind() string { return "work" }

// stepping is the name of jobs that take a step.
const stepping = "stepping"

// A world is all of txwork's tables, with workers for all of them.
type world struct {
	testing.TB
	*pgtest.DB
	jobs     *jobs.Client
	periodic *jobs.Schedules
	outbox   *outbox.Outbox
	inbox    *inbox.Inbox
	timers   *timers.Timers
	alarms   *alarms.Alarms
	scripts  *sync.Map // what the handler does, by name
	since    time.Time // rows written before are ignored when the test checks that all have ended
}

// newWorld creates the tables, as soon as another world may exist. It starts no workers; see start.
func newWorld(t testing.TB) *world {
	t.Helper()
	worlds <- struct{}{}
	t.Cleanup(func() { <-worlds })
	w := &world{TB: t, DB: pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = poolSize })),
		scripts: &sync.Map{}}
	up, err := migrations.SQL(migrations.FileOptions{Schema: w.Schema})
	w.ok(err)
	w.exec(up)
	w.open()
	w.inTx(func(tx workqueue.Tx) error {
		return w.jobs.SetLimits(w.Context(), tx, capped, jobs.Limits{MaxRunning: 100, Rate: 100_000})
	})
	return w
}

func (w *world) open() {
	quiet := workqueue.Telemetry{Logger: logger()}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, j *jobs.Job[work]) error {
		if j.Args.Name == stepping {
			_, err := jobs.Step(ctx, j.Delivery, "one", func(context.Context) (int, error) { return 1, nil })
			return err
		}
		return w.play(ctx, j.Args.Name, j.Tx)
	}, jobs.KindOptions[work]{})
	var err error
	w.jobs, err = jobs.Open(jobs.Options{Schema: w.Schema, Registry: kinds, Retry: atOnce, MaxAttempts: 100,
		Telemetry: quiet})
	w.ok(err)
	w.periodic = w.jobs.Schedules()
	w.outbox, err = outbox.Open(outbox.Options{
		Schema: w.Schema, Ordering: outbox.PerKey, Retry: atOnce, MaxAttempts: 100, Telemetry: quiet,
	})
	w.ok(err)
	w.inbox, err = inbox.Open(inbox.Options{
		Schema: w.Schema, DedupWindow: 24 * time.Hour, Retry: atOnce, MaxAttempts: 100, Telemetry: quiet,
	})
	w.ok(err)
	w.timers, err = timers.Open(timers.Options{Schema: w.Schema, Retry: atOnce, MaxAttempts: 100, Telemetry: quiet})
	w.ok(err)
	w.alarms, err = alarms.Open(alarms.Options{Schema: w.Schema, Telemetry: quiet})
	w.ok(err)
}

// logger drops messages, because the tests provoke many, unless TXWORK_LIVENESS_LOG is set.
func logger() *slog.Logger {
	if os.Getenv("TXWORK_LIVENESS_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// tables are the tables that contain a queue.
func (w *world) tables() []*workqueue.Table {
	return []*workqueue.Table{
		w.jobs.Table(), w.periodic.Table(), w.outbox.Table(), w.inbox.Table(), w.timers.Table(),
		w.timers.Schedules().Table(),
	}
}

// A runner is a worker of any domain.
type runner interface {
	Run(ctx context.Context) error
}

// Names of the workers of a world.
const (
	ofJobs      = "jobs"
	ofSchedules = "schedules"
	ofOutbox    = "outbox"
	ofTimers    = "timers"
	ofInbox     = "inbox"
)

// worker makes one of a world's workers, which all use the application's pool.
func (w *world) worker(of string) runner {
	w.Helper()
	switch of {
	case ofJobs:
		return w.jobWorker(w.Pool, served...)
	case ofSchedules:
		return w.scheduler(w.Pool)
	case ofOutbox:
		return w.relay(w.Pool)
	case ofTimers:
		return w.timerWorker(w.Pool, topic)
	}
	return w.receiver(w.Pool)
}

// start runs workers of every domain, except those named, until the test ends.
func (w *world) start(but ...string) {
	w.Helper()
	for _, of := range []string{ofJobs, ofSchedules, ofOutbox, ofTimers, ofInbox} {
		if !slices.Contains(but, of) {
			w.run(w.worker(of))
		}
	}
}

func options() workqueue.WorkerOptions {
	return workqueue.WorkerOptions{Lease: lease, ShutdownTimeout: time.Second}
}

func (w *world) jobWorker(pool *pgxpool.Pool, queues ...string) *jobs.Worker {
	w.Helper()
	o := jobs.WorkerOptions{WorkerOptions: options(), NoSchedules: true}
	for _, q := range queues {
		o.Queues = append(o.Queues, jobs.QueueOptions{Name: q})
	}
	worker, err := jobs.NewWorker(pool, w.jobs, o)
	w.ok(err)
	return worker
}

func (w *world) scheduler(pool *pgxpool.Pool) *periodic.Scheduler {
	s, err := w.periodic.Scheduler(pool, periodic.SchedulerOptions{WorkerOptions: options()})
	w.ok(err)
	return s
}

func (w *world) relay(pool *pgxpool.Pool) *outbox.Relay {
	r, err := outbox.NewRelay(pool, w.outbox, outbox.RelayOptions{WorkerOptions: options()})
	if err != nil {
		w.Fatal(err)
	}
	r.HandleAll(func(ctx context.Context, d *outbox.Delivery) error { return w.play(ctx, string(d.Payload), d.Tx) })
	return r
}

// timerWorker fires the timers of one topic, and alarms.
func (w *world) timerWorker(pool *pgxpool.Pool, topic string) *timers.Worker {
	worker, err := timers.NewWorker(pool, w.timers, timers.WorkerOptions{WorkerOptions: options()})
	if err != nil {
		w.Fatal(err)
	}
	worker.Handle(topic, func(ctx context.Context, d *timers.Delivery) error {
		return w.play(ctx, string(d.Payload), d.Tx)
	})
	dispatcher, err := alarms.NewDispatcher(pool, w.alarms,
		alarms.WakerFunc(func(context.Context, alarms.Wake) error { return nil }),
		alarms.DispatcherOptions{})
	w.ok(err)
	worker.Handle(alarms.Topic, dispatcher.Deliver)
	return worker
}

func (w *world) receiver(pool *pgxpool.Pool) *inbox.Worker {
	r, err := inbox.NewWorker(pool, w.inbox, inbox.WorkerOptions{Consumer: consumer, WorkerOptions: options()})
	if err != nil {
		w.Fatal(err)
	}
	r.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
		return w.play(ctx, string(m.Payload), nil)
	})
	return r
}

// run runs a worker until the test ends or stop is called.
func (w *world) run(r runner) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// A script is what the handlers of one name do; settleIn runs the handler's own transaction.
type script func(ctx context.Context, settleIn func(context.Context, func(pgx.Tx) error) error) error

// play is the handler of all rows. Rows without a script are done at once.
func (w *world) play(ctx context.Context, name string, settleIn func(context.Context, func(pgx.Tx) error) error) error {
	if s, ok := w.scripts.Load(name); ok {
		return s.(script)(ctx, settleIn)
	}
	return nil
}

// busy makes the handlers of a name wait until finish is called. Begun is closed when the first has begun.
func (w *world) busy(name string) (begun <-chan struct{}, finish func()) {
	entered, leave := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	w.scripts.Store(name, script(func(ctx context.Context, _ func(context.Context, func(pgx.Tx) error) error) error {
		enter()
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	finish = sync.OnceFunc(func() { close(leave) })
	w.Cleanup(finish)
	return entered, finish
}

// await waits for a channel to be closed.
func (w *world) await(what string, c <-chan struct{}) {
	w.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		w.Fatalf("not within %v: %s", patience, what)
	}
}

// on returns the world for a part of the test.
func (w *world) on(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) exec(query string, args ...any) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Context(), query, args...); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
}

// inTx runs do in a transaction that commits.
func (w *world) inTx(do func(tx workqueue.Tx) error) {
	w.Helper()
	w.ok(workqueue.InTx(w.Context(), w.Pool, do))
}

// opened opens a transaction that stays open until end is called, or at the latest until the test ends.
func (w *world) opened(do func(tx pgx.Tx) error) (end func()) {
	w.Helper()
	tx, err := w.Pool.Begin(w.Context())
	w.ok(err)
	end = sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			w.Errorf("the holder's transaction: %v", err)
		}
	})
	w.Cleanup(end)
	w.ok(do(tx))
	return end
}

// ended waits until rows of a table have a status.
func (w *world) ended(ctx context.Context, table string, status workqueue.Status, ids ...uuid.UUID) error {
	query := fmt.Sprintf("SELECT count(*) = $2 FROM %s.%s WHERE id = ANY ($1) AND status = $3", w.Schema, table)
	return w.until(ctx, fmt.Sprintf("%d rows of %s are %v", len(ids), table, status), query, ids, len(ids),
		int16(status))
}

// until polls a query that returns true or false.
func (w *world) until(ctx context.Context, what, query string, args ...any) error {
	for {
		var yes bool
		err := w.Pool.QueryRow(ctx, query, args...).Scan(&yes)
		if err == nil && yes {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("still waiting until %s", what)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}
