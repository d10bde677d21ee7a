//go:build unix

package backup

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

const (
	patience = 90 * time.Second
	lease    = 2 * time.Second

	topic    = "topic"
	consumer = "consumer"
	capped   = "capped" // a queue with a limit on running jobs
	most     = 2
)

// Names of rows that have a special handler in the old application.
const (
	stuck = "stuck" // stays in progress for as long as the worker runs
	dead  = "dead"  // becomes a dead letter
)

type work struct{ Name string }

func (work) Kind() string { return "work" }

// tick is the kind of the schedule's jobs.
type tick struct{}

func (tick) Kind() string { return "tick" }

// An application uses every domain on one database, and keeps a journal of what its handlers did.
type application struct {
	*testing.T
	pool     *pgxpool.Pool
	box      *outbox.Outbox
	jobs     *jobs.Client
	periodic *jobs.Schedules
	inbox    *inbox.Inbox
	timers   *timers.Timers
	alarms   *alarms.Alarms
	old      *application // the application that this one continues on a copy

	orders  *orders
	mu      sync.Mutex
	journal []delivery
	running map[string]*atomic.Int32
	over    atomic.Bool // more ran at once than a limit allows

	stops []func()
}

// A delivery is one call of a handler.
type delivery struct {
	id   uuid.UUID
	name string
}

// orders are what producers have committed, and the next number of each key.
type orders struct {
	committed []uuid.UUID
	next      int
}

// An order is a row that an application writes together with a message of the same id.
type order struct {
	ID  uuid.UUID
	Key string
	N   int
}

func open(t *testing.T, url string) *application {
	t.Helper()
	a := &application{T: t, orders: &orders{}, running: map[string]*atomic.Int32{capped: {}, "limited": {}}}
	a.pool = pgschema.NewPool(t, url, func(c *pgxpool.Config) { c.MaxConns = 24 })
	quiet := workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}
	atOnce := workqueue.Retry{Growth: workqueue.Constant}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, j *jobs.Job[work]) error { return a.handle(ctx, j.ID, j.Args.Name) },
		jobs.KindOptions[work]{})
	jobs.Register(kinds, func(context.Context, *jobs.Job[tick]) error { return nil }, jobs.KindOptions[tick]{})
	var err error
	a.box, err = outbox.Open(outbox.Options{Ordering: outbox.PerKey, Retry: atOnce, Telemetry: quiet})
	a.ok(err)
	a.jobs, err = jobs.Open(jobs.Options{Registry: kinds, Retry: atOnce, Telemetry: quiet})
	a.ok(err)
	a.periodic = a.jobs.Schedules()
	a.inbox, err = inbox.Open(inbox.Options{DedupWindow: 24 * time.Hour, Retry: atOnce, Telemetry: quiet})
	a.ok(err)
	a.timers, err = timers.Open(timers.Options{Retry: atOnce, Telemetry: quiet})
	a.ok(err)
	a.alarms, err = alarms.Open(alarms.Options{Telemetry: quiet})
	a.ok(err)
	return a
}

func (a *application) ok(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *application) exec(query string, args ...any) {
	a.Helper()
	if _, err := a.pool.Exec(a.Context(), query, args...); err != nil {
		a.Fatalf("%s: %v", query, err)
	}
}

// ask returns the single value of a query.
func ask[V any](a *application, query string, args ...any) (v V) {
	a.Helper()
	if err := a.pool.QueryRow(a.Context(), query, args...).Scan(&v); err != nil {
		a.Fatalf("%s: %v", query, err)
	}
	return v
}

func all[V any](a *application, query string, args ...any) []V {
	a.Helper()
	rows, err := a.pool.Query(a.Context(), query, args...)
	a.ok(err)
	values, err := pgx.CollectRows(rows, pgx.RowToStructByPos[V])
	a.ok(err)
	return values
}

// until waits until a query returns true, even if the server is restarted meanwhile.
func (a *application) until(what, query string, args ...any) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	for {
		var yes bool
		err := a.pool.QueryRow(ctx, query, args...).Scan(&yes)
		if err == nil && yes {
			return
		}
		if ctx.Err() != nil {
			a.Fatalf("still waiting until %s: %v\n%s", what, err, a.left())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// left describes the rows that have not ended, for failure messages.
func (a *application) left() string {
	rows, err := a.pool.Query(context.Background(), leftovers)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines, "\n")
}

const leftovers = `
	SELECT format('outbox %s %s status %s waiting %s seq %s key %s', id, convert_from(payload, 'UTF8'), status, waiting, key_seq, concurrency_key) FROM txwork.outbox WHERE completed_at IS NULL
	UNION ALL SELECT format('jobs %s status %s waiting %s seq %s key %s queue %s', id, status, waiting, key_seq, concurrency_key, queue) FROM txwork.jobs WHERE completed_at IS NULL
	UNION ALL SELECT format('timers %s status %s topic %s due in %s', id, status, topic, due_at - now()) FROM txwork.timers WHERE completed_at IS NULL
	UNION ALL SELECT format('inbox %s status %s', id, status) FROM txwork.inbox WHERE completed_at IS NULL LIMIT 40`

func (a *application) inTx(do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(a.Context(), a.pool, do)
}

func (a *application) migrate() {
	a.Helper()
	up, err := migrations.SQL(migrations.FileOptions{})
	a.ok(err)
	a.exec(up)
}

// nextVersion is how the next migration begins.
const nextVersion = "INSERT INTO txwork.schema_version (version_id, is_applied) VALUES (999, false); DELETE FROM " +
	"txwork.schema_version WHERE version_id = 999"

func (a *application) makeOrders() {
	a.Helper()
	a.exec("CREATE TABLE orders (id uuid PRIMARY KEY, key text NOT NULL, n integer NOT NULL)")
}

// install creates the tables, and rows some of which get stuck or fail.
func (a *application) install() {
	a.Helper()
	a.migrate()
	a.makeOrders()
	a.ok(a.inTx(func(tx pgx.Tx) error {
		ctx, wrapped := a.Context(), workqueue.Pgx(tx)
		if err := a.jobs.SetLimits(ctx, wrapped, capped, jobs.Limits{MaxRunning: most, Rate: 1000}); err != nil {
			return err
		}
		if err := a.periodic.Put(ctx, wrapped, jobs.Schedule{Name: "tick", Expr: "@every 1s",
			Args: tick{}}); err != nil {
			return err
		}
		var messages []outbox.Message
		for _, name := range []string{dead, "behind", "behind"} {
			messages = append(messages, outbox.Message{Topic: topic, Key: dead, Payload: []byte(name)})
		}
		step, next := outbox.Message{Topic: topic, Payload: []byte(stuck)}, outbox.Message{Topic: topic,
			Payload: []byte("next")}
		if _, err := a.box.StartJoin(ctx, wrapped, outbox.Join{Steps: []outbox.Message{step, next},
			OnComplete: &next}); err != nil {
			return err
		}
		inserts := []jobs.Insert{{Args: work{stuck}, Queue: capped}}
		for i := range 10 {
			name := "behind"
			if i == 0 {
				name = stuck
			}
			messages = append(messages, outbox.Message{Topic: topic, Key: stuck, Payload: []byte(name)})
			inserts = append(inserts, jobs.Insert{Args: work{name},
				ByKey: keyed.Ordered{Key: stuck, OnFailure: keyed.Skip}})
		}
		if _, err := a.box.EnqueueMany(ctx, wrapped, messages...); err != nil {
			return err
		}
		if _, err := a.jobs.StartBatch(ctx, wrapped, jobs.Batch{Jobs: inserts,
			OnComplete: &jobs.Insert{Args: work{"next"}}}); err != nil {
			return err
		}
		if _, err := a.timers.Set(ctx, wrapped, timers.Timer{Key: stuck, Topic: topic,
			Payload: []byte(stuck)}); err != nil {
			return err
		}
		_, err := a.inbox.Receive(ctx, wrapped, inbox.Message{Consumer: consumer, Source: "a", MessageID: stuck,
			Payload: []byte(stuck)})
		return err
	}))
}

func (a *application) send(m outbox.Message) (id uuid.UUID) {
	a.Helper()
	a.ok(a.inTx(func(tx pgx.Tx) error {
		enqueued, err := a.box.Enqueue(a.Context(), workqueue.Pgx(tx), m)
		if err == nil {
			id = enqueued.ID
		}
		return err
	}))
	return id
}

// produce starts to write orders and all other rows. A transaction that fails is simply replaced by the next one.
func (a *application) produce() {
	a.Helper()
	a.background(func(ctx context.Context) {
		for ctx.Err() == nil {
			n := a.orders.next
			o := order{ID: uuid.New(), Key: fmt.Sprint("key", n%4), N: n}
			if err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error { return a.place(ctx, tx, o) }); err == nil {
				a.orders.committed = append(a.orders.committed, o.ID)
			}
			a.orders.next++
			time.Sleep(8 * time.Millisecond)
		}
	})
}

// lastOrder writes a small order whose commit does not wait for the disk, while everything before it is written.
func (a *application) lastOrder() {
	a.Helper()
	a.orders.next += 1 + a.orders.next%5/4 // every fifth is large
	o := order{ID: uuid.New(), Key: fmt.Sprint("key", a.orders.next%4), N: a.orders.next}
	a.ok(a.inTx(func(tx pgx.Tx) error {
		if _, err := tx.Exec(a.Context(), "SET LOCAL synchronous_commit = off"); err != nil {
			return err
		}
		return a.place(a.Context(), tx, o)
	}))
	a.orders.committed = append(a.orders.committed, o.ID)
}

// place writes an order and everything that belongs to it.
func (a *application) place(ctx context.Context, tx pgx.Tx, o order) error {
	wrapped := workqueue.Pgx(tx)
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Key, o.N); err != nil {
		return err
	}
	name := fmt.Sprint(o.Key, " ", o.N)
	message := outbox.Message{ID: o.ID, Topic: topic, Key: o.Key, Payload: []byte(name)}
	if _, err := a.box.Enqueue(ctx, wrapped, message); err != nil || o.N%5 > 0 {
		return err
	}
	one := outbox.Message{Topic: topic, Payload: []byte("joined")}
	if _, err := a.box.StartJoin(ctx, wrapped, outbox.Join{Steps: []outbox.Message{one, one, one},
		OnComplete: &one}); err != nil {
		return err
	}
	plain := jobs.Insert{Args: work{"plain"}}
	limited := jobs.Insert{Args: work{"limited"}, ByKey: keyed.Limited{Key: "limited",
		MaxRunning: most}}
	rated := jobs.Insert{Args: work{"rated"}, ByKey: keyed.Limited{Key: "rated",
		MaxRunning: 100, Rate: 100, Burst: 5}}
	serial := jobs.Insert{Args: work{"serial"}, ByKey: keyed.Ordered{Key: "serial",
		OnFailure: keyed.Skip}}
	queued := jobs.Insert{Args: work{capped}, Queue: capped}
	if _, err := a.jobs.EnqueueMany(ctx, wrapped, plain, limited, rated, serial, queued); err != nil {
		return err
	}
	if _, err := a.jobs.StartBatch(ctx, wrapped, jobs.Batch{Jobs: []jobs.Insert{plain, limited},
		OnComplete: &plain}); err != nil {
		return err
	}
	flow := jobs.NewWorkflow("")
	first := flow.Task("first", jobs.Insert{Args: work{"plain"}})
	second := flow.Task("second", jobs.Insert{Args: work{"plain"}}, jobs.After(first))
	flow.Task("last", jobs.Insert{Args: work{"plain"}}, jobs.After(first, second))
	if _, err := a.jobs.StartWorkflow(ctx, wrapped, flow); err != nil {
		return err
	}
	late := time.Duration(rand.IntN(2000)) * time.Millisecond
	if _, err := a.timers.Set(ctx, wrapped, timers.Timer{Key: name, Topic: topic, Delay: late,
		Payload: []byte("timer")}); err != nil {
		return err
	}
	if _, _, err := a.alarms.In(wrapped).CreateAlarm(ctx, alarms.New{
		OwnerDID: "owner", UserID: "user", Kind: alarms.KindOnce, Delay: late + time.Millisecond, WakeMessage: "wake",
	}); err != nil {
		return err
	}
	_, err := a.inbox.Receive(ctx, wrapped, inbox.Message{Consumer: consumer, Source: "a", MessageID: name,
		Payload: []byte("received")})
	return err
}

// start runs workers of all domains.
func (a *application) start() {
	a.Helper()
	o := workqueue.WorkerOptions{Concurrency: 6, Lease: lease, ShutdownTimeout: 100 * time.Millisecond}
	relay, err := outbox.NewRelay(a.pool, a.box, outbox.RelayOptions{WorkerOptions: o})
	a.ok(err)
	relay.HandleAll(func(ctx context.Context, d *outbox.Delivery) error {
		return a.handle(ctx, d.ID, string(d.Payload))
	})
	worker, err := jobs.NewWorker(a.pool, a.jobs, jobs.WorkerOptions{
		WorkerOptions: o, Queues: []jobs.QueueOptions{{Name: jobs.DefaultQueue}, {Name: capped}}, NoSchedules: true,
	})
	a.ok(err)
	scheduler, err := a.periodic.Scheduler(a.pool, periodic.SchedulerOptions{WorkerOptions: o})
	a.ok(err)
	fires, err := timers.NewWorker(a.pool, a.timers, timers.WorkerOptions{WorkerOptions: o})
	a.ok(err)
	fires.Handle(topic, func(ctx context.Context, d *timers.Delivery) error {
		return a.handle(ctx, d.ID, string(d.Payload))
	})
	dispatcher, err := alarms.NewDispatcher(a.pool, a.alarms,
		alarms.WakerFunc(func(context.Context, alarms.Wake) error { return nil }), alarms.DispatcherOptions{})
	a.ok(err)
	fires.Handle(alarms.Topic, dispatcher.Deliver)
	receiver, err := inbox.NewWorker(a.pool, a.inbox, inbox.WorkerOptions{Consumer: consumer, WorkerOptions: o})
	a.ok(err)
	receiver.HandleAll(func(ctx context.Context, _ pgx.Tx, d *inbox.Delivery) error {
		return a.handle(ctx, d.ID, string(d.Payload))
	})
	for _, run := range []func(context.Context) error{relay.Run, worker.Run, scheduler.Run, fires.Run, receiver.Run} {
		a.background(func(ctx context.Context) {
			if err := run(ctx); err != nil {
				a.Errorf("Run: %v", err)
			}
		})
	}
	a.background(func(ctx context.Context) {
		var tables []*workqueue.Table
		tables = append(append(append(append(tables, a.box.Tables()...), a.jobs.Tables()...), a.inbox.Tables()...),
			a.timers.Tables()...)
		quiet := slog.New(slog.DiscardHandler)
		if err := reaper.Run(ctx, a.pool, tables, reaper.Options{Interval: 500 * time.Millisecond,
			Logger: quiet}); err != nil {
			a.Errorf("reaper.Run: %v", err)
		}
	})
}

// background runs a function until stop, or at the latest until the test ends.
func (a *application) background(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	a.stops = append(a.stops, stop)
	a.Cleanup(stop)
}

func (a *application) stop() {
	for _, stop := range a.stops {
		stop()
	}
	a.stops = nil
}

// handle is the handler of all rows.
func (a *application) handle(ctx context.Context, id uuid.UUID, name string) error {
	if a.old == nil && name == stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if a.old == nil && name == dead {
		return workqueue.Permanent(fmt.Errorf("no good"))
	}
	if n := a.running[name]; n != nil {
		if n.Add(1) > most {
			a.over.Store(true)
		}
		defer n.Add(-1)
	}
	a.mu.Lock()
	a.journal = append(a.journal, delivery{id, name})
	a.mu.Unlock()
	select {
	case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

func (a *application) delivered() []delivery {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.journal)
}

// busy returns when two hundred more rows have been handled.
func (a *application) busy() {
	a.Helper()
	before := len(a.delivered())
	for deadline := time.Now().Add(patience); len(a.delivered()) < before+200; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.Fatalf("%d rows were handled, then no more\n%s", len(a.delivered()), a.left())
		}
	}
}
