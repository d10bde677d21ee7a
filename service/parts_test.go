package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// newQueue makes a part that serves only one queue of jobs.
func (w *world) newQueue(name string, o workqueue.WorkerOptions, handle func(context.Context) error) *jobs.Worker {
	w.Helper()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, _ *jobs.Job[errand]) error { return handle(ctx) },
		jobs.KindOptions[errand]{})
	worker, err := jobs.NewWorker(w.db.Pool, w.jobs, jobs.WorkerOptions{
		Registry:      kinds,
		WorkerOptions: o, NoSchedules: true, Queues: []jobs.QueueOptions{{Name: name}},
	})
	w.ok(err)
	return worker
}

func (w *world) enqueue(queue string, n int) {
	w.Helper()
	w.ok(workqueue.InTx(w.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		for range n {
			if _, err := w.jobs.Enqueue(w.Context(), tx, jobs.Insert{Args: errand{}, Queue: queue}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// abandon enqueues a job in a queue without a worker, and makes it look as if its worker had died.
func (w *world) abandon() {
	w.Helper()
	w.enqueue("a", 1)
	_, err := w.db.Pool.Exec(w.Context(), `UPDATE jobs SET status = 1, attempts = 1, owner_token = gen_random_uuid(),
		locked_until = now() - interval '1 minute', due_at = now() - interval '1 hour' WHERE status = 0`)
	w.ok(err)
}

func (w *world) send() { w.sendTo("topic") }

func (w *world) sendTo(topic string) {
	w.Helper()
	w.ok(workqueue.InTx(w.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		_, err := w.box.Enqueue(w.Context(), tx, outbox.Message{Topic: topic})
		return err
	}))
}

func (w *world) take(what string) {
	w.Helper()
	select {
	case got := <-w.handled:
		if got != what {
			w.Fatalf("handled %s, want %s", got, what)
		}
	case <-time.After(patience):
		w.Fatalf("still waiting for %s\n%s", what, w.logs)
	}
}

// running starts a service and waits until it is ready.
func (w *world) running(o service.Options, parts ...service.Part) (s *service.Service, stop func() error) {
	w.Helper()
	s, err := service.New(w.db.Pool, o, parts...)
	w.ok(err)
	stop = w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	return s, stop
}

func does(handled chan string, what string) func(context.Context) error {
	return func(context.Context) error { handled <- what; return nil }
}

// Queues are added and removed while the other parts work. They need no more connections and do not stop other parts,
// and rows that are left in a queue wait for the next part that serves it.
func TestPartsComeAndGo(t *testing.T) {
	t.Parallel()
	name := "parts_" + rand()
	w := newWorld(t, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name }))
	s, stop := w.running(w.options(), w.relay)
	connections := func() (n int) {
		w.ok(w.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
			name).Scan(&n))
		return n - int(w.db.Pool.Stat().TotalConns())
	}
	most := s.Runtime().MaxConnections()
	for round := range 3 {
		var queues []*jobs.Worker
		for i := range 5 {
			queue := fmt.Sprintf("q%d", i)
			part := w.newQueue(queue, workqueue.WorkerOptions{}, does(w.handled, queue))
			w.ok(s.Add(t.Context(), part))
			queues = append(queues, part)
			w.enqueue(queue, 1)
			w.take(queue)
			w.send()
			w.take("message")
		}
		if err := s.Ready(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if n := connections(); n > most {
			t.Errorf("round %d: %d connections, want at most %d", round, n, most)
		}
		for _, part := range queues {
			w.ok(s.Remove(t.Context(), part))
			if err := s.Ready(); err != nil {
				t.Errorf("not ready without a part that was removed: %v", err)
			}
		}
		w.enqueue("q0", 1)
		w.send()
		w.take("message")
		again := w.newQueue("q0", workqueue.WorkerOptions{}, does(w.handled, "left over"))
		w.ok(s.Add(t.Context(), again))
		w.take("left over")
		w.ok(s.Remove(t.Context(), again))
	}
	for _, part := range []service.Part{w.newQueue("q0", workqueue.WorkerOptions{}, nil), w.worker} {
		if err := s.Remove(t.Context(), part); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("removing what is not in the service: %v", err)
		}
	}
	w.ok(s.Remove(t.Context(), w.relay))
	if err := errors.Join(s.Ready(), s.Alive()); err != nil {
		t.Errorf("a service without parts: %v", err)
	}
	w.ok(stop())
	if err := s.Add(t.Context(), w.newQueue("late", workqueue.WorkerOptions{}, nil)); err == nil {
		t.Error("a part was added to a service that has stopped")
	}
}

// A part that is being removed stops claiming, and the results of its running handlers are settled before Remove
// returns.
func TestARemovedPartFinishesItsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.running(w.options(), w.relay)
	begun, release := make(chan struct{}), make(chan struct{})
	part := w.newQueue("slow", workqueue.WorkerOptions{Concurrency: 2}, func(context.Context) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	w.ok(s.Add(t.Context(), part))
	w.enqueue("slow", 5)
	<-begun
	<-begun
	removed := make(chan error, 1)
	go func() { removed <- s.Remove(t.Context(), part) }()
	w.eventually("the rows that nobody has begun to be returned", func() bool {
		return part.Workers()[0].Ready() != nil &&
			w.ask("SELECT count(*) FILTER (WHERE status = 0 AND attempts = 0) = 3 FROM jobs")
	})
	if err := s.Add(t.Context(), w.newQueue("slow", workqueue.WorkerOptions{}, nil)); !errors.Is(err,
		workqueue.ErrInvalid) || !strings.Contains(err.Error(), "still stopping") {
		t.Errorf("a queue was added while the part before it stops: %v", err)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("not ready while a part is removed: %v", err)
	}
	w.send()
	w.take("message")
	close(release)
	w.ok(<-removed)
	if !w.ask("SELECT count(*) FILTER (WHERE status = 2 AND attempts = 1) = 2 AND count(*) FILTER (WHERE status = 0) " +
		"= 3 FROM jobs") {
		t.Error("the rows in flight are not settled, or more were claimed")
	}
	again := w.newQueue("slow", workqueue.WorkerOptions{}, does(w.handled, "job"))
	w.ok(s.Add(t.Context(), again))
	for range 3 {
		w.take("job")
	}
}

// A handler that hangs delays the removal of its part only for the shutdown timeout and its grace, and does not affect
// the other parts.
func TestARemovalIsBoundedByTheShutdownTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, stop := w.running(w.options(), w.relay)
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	part := w.newQueue("stuck", workqueue.WorkerOptions{ShutdownTimeout: 100 * time.Millisecond},
		func(context.Context) error {
			close(begun)
			<-release
			return nil
		})
	w.ok(s.Add(t.Context(), part))
	w.enqueue("stuck", 1)
	<-begun
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Remove(short, part); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a removal that nobody waits for: %v", err)
	}
	if err := s.Remove(t.Context(), part); err != nil && !strings.Contains(err.Error(), "did not stop") {
		t.Errorf("the removal: %v", err)
	} else if err == nil {
		t.Error("nothing tells of the handler that hangs")
	}
	if err := errors.Join(s.Ready(), s.Alive()); err != nil {
		t.Error(err)
	}
	w.eventually("the log to tell", func() bool { return strings.Contains(w.logs.String(), "part removed") })
	w.send()
	w.take("message")
	w.ok(s.Add(t.Context(), w.newQueue("stuck", workqueue.WorkerOptions{}, does(w.handled, "job"))))
	w.enqueue("stuck", 1)
	w.take("job")
	w.ok(stop())
}

// A part that cannot work is not added, and does not stop the others.
func TestPartsThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.running(w.options(), w.relay, w.newQueue("a", workqueue.WorkerOptions{}, nil))
	add := func(p service.Part) error { return s.Add(t.Context(), p) }
	var none *outbox.Relay
	twice := w.newWorker(jobs.QueueOptions{Name: "b"})
	w.ok(add(twice))
	for what, part := range map[string]service.Part{
		"nil":                     nil,
		"a nil pointer":           none,
		"another relay":           w.newRelay(),
		"a queue that is served":  w.newQueue("a", workqueue.WorkerOptions{}, nil),
		"a part that is in it":    twice,
		"one queue of two":        w.newWorker(jobs.QueueOptions{Name: "c"}, jobs.QueueOptions{Name: "a"}),
		"schedules that have one": w.newWorker(jobs.QueueOptions{Name: "d"}),
	} {
		if err := add(part); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.ok(s.Remove(t.Context(), w.relay))
	if err := add(w.relay); err == nil {
		t.Error("a part ran twice")
	}
	empty, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{})
	w.ok(err)
	if err := add(empty); err == nil || !strings.Contains(err.Error(), ".outbox has no handler") {
		t.Errorf("a relay without a handler: %v", err)
	}
	_, err = w.db.Pool.Exec(t.Context(), "ALTER TABLE outbox RENAME TO away")
	w.ok(err)
	if err := add(w.newRelay()); !errors.Is(err, workqueue.ErrSchemaVersion) {
		t.Errorf("a part without its table: %v", err)
	}
	_, err = w.db.Pool.Exec(t.Context(), "ALTER TABLE away RENAME TO outbox")
	w.ok(err)
	w.ok(add(w.newRelay()))
	w.send()
	w.take("message")
	if err := errors.Join(s.Ready(), s.Alive()); err != nil {
		t.Error(err)
	}
}

// unreachableWhile opens a pool that cannot connect while away is set.
func (w *world) unreachableWhile(away *atomic.Bool) *pgxpool.Pool {
	return pgtest.NewPool(w.T, w.db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if away.Load() {
				return errors.New("no route to host")
			}
			return nil
		}
	}))
}

// If a part is added while the database is unavailable, and the context ends, the part is not in the service.
func TestAddingWithoutADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	pool := w.unreachableWhile(&away)
	s, err := service.New(pool, w.options(), w.relay)
	w.ok(err)
	w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	away.Store(true)
	pool.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	clock := w.newClock()
	if err := s.Add(ctx, clock); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of its context", err)
	}
	if err := s.Remove(t.Context(), clock); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("it is in the service: %v", err)
	}
	away.Store(false)
	w.ok(s.Add(t.Context(), clock))
	w.eventually("readiness", func() bool { return s.Ready() == nil })
}

// A part that is added while Run still waits for the database is added to a running service, like any other.
func TestAddingWhileTheServiceStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	away.Store(true)
	pool := w.unreachableWhile(&away)
	s, err := service.New(pool, w.options(), w.newQueue("a", workqueue.WorkerOptions{}, does(w.handled, "job")))
	w.ok(err)
	w.start(s)
	w.eventually("an outage", func() bool { return strings.Contains(w.logs.String(), "database does not answer") })
	away.Store(false) // Run is in its pause between two tries

	empty, err := outbox.NewRelay(pool, w.box, outbox.RelayOptions{})
	w.ok(err)
	if err := s.Add(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "has no handler") {
		t.Errorf("a relay without a handler: %v", err)
	}
	late := w.newQueue("b", workqueue.WorkerOptions{}, does(w.handled, "job"))
	w.ok(s.Add(t.Context(), late))
	for _, worker := range late.Workers() {
		w.ok(worker.Ready()) // those that were there from the start may still be on their way
	}
	w.ok(s.Alive())
	w.enqueue("a", 1)
	w.enqueue("b", 1)
	w.take("job")
	w.take("job")
}

// Parts can be added and removed before the service runs.
func TestPartsBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := service.New(w.db.Pool, w.options(), w.relay)
	w.ok(err)
	gone := w.newQueue("a", workqueue.WorkerOptions{}, nil)
	w.ok(s.Add(t.Context(), gone))
	if err := gone.SetConcurrency("b", 1); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("a queue that is not served was rescaled: %v", err)
	}
	w.ok(s.Remove(t.Context(), gone))
	w.ok(s.Add(t.Context(), w.newQueue("a", workqueue.WorkerOptions{}, does(w.handled, "job"))))
	w.start(s)
	w.enqueue("a", 1)
	w.take("job")
}

// The reaper maintains the tables of added parts, and goes on when the parts are removed.
func TestTheReaperFollowsTheParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.running(w.options(), w.relay)
	w.abandon()
	part := w.newQueue("b", workqueue.WorkerOptions{}, nil)
	w.ok(s.Add(t.Context(), part))
	reaped := func() bool { return w.ask("SELECT bool_and(status = 0) FROM jobs") }
	w.eventually("the lease that has ended to be taken back", reaped)
	w.ok(s.Remove(t.Context(), part))
	w.abandon()
	w.eventually("another, of a part that has gone", reaped)
}

// Several goroutines add and remove queues under load. No job is lost, and none is done twice.
func TestPartsComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.running(w.options(), w.relay)
	const queues, rounds, each = 4, 8, 20
	var done atomic.Int64
	var changing sync.WaitGroup
	for i := range queues {
		queue := fmt.Sprintf("q%d", i)
		changing.Go(func() {
			for range rounds {
				part := w.newQueue(queue, workqueue.WorkerOptions{Concurrency: 3}, func(context.Context) error {
					done.Add(1)
					return nil
				})
				if err := s.Add(t.Context(), part); err != nil {
					t.Error(err)
				}
				w.enqueue(queue, each)
				if err := part.SetConcurrency(queue, 1+int(done.Load())%5); err != nil {
					t.Error(err)
				}
				if err := s.Remove(t.Context(), part); err != nil {
					t.Error(err)
				}
			}
		})
	}
	changing.Wait()
	if !w.ask("SELECT count(*) = 0 FROM jobs WHERE status = 1") {
		t.Error("rows of parts that were removed are still claimed")
	}
	for i := range queues {
		w.ok(s.Add(t.Context(), w.newQueue(fmt.Sprintf("q%d", i),
			workqueue.WorkerOptions{}, func(context.Context) error {
				done.Add(1)
				return nil
			})))
	}
	w.eventually("all jobs to be done", func() bool { return w.ask("SELECT bool_and(status = 2) FROM jobs") })
	if n := done.Load(); n != queues*rounds*each || !w.ask("SELECT bool_and(attempts = 1) FROM jobs") {
		t.Errorf("%d jobs were done, want %d, each once", n, queues*rounds*each)
	}
}

// The reaper uses none of the application's connections, all of which may be busy.
func TestTheReaperUsesTheRuntimesConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool := pgtest.NewPool(t, w.db, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 1 }))
	s, err := service.New(pool, w.options(), w.newQueue("b", workqueue.WorkerOptions{}, nil))
	w.ok(err)
	stop := w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	held, err := pool.Acquire(t.Context())
	w.ok(err)
	defer held.Release()
	w.abandon()
	w.eventually("the lease that has ended to be taken back", func() bool {
		return w.ask("SELECT bool_and(status = " +
			"0) FROM jobs")
	})
	w.ok(stop())
	if w.ask("SELECT EXISTS (SELECT FROM leader WHERE expires_at > now())") {
		t.Error("the reaper has not given up its leadership")
	}
}

// A relay whose subscription does not exist is added to a running service, whose other parts go on: its log and Ready
// say what it waits for. It delivers once the subscription is there.
func TestARelayIsAddedBeforeItsSubscription(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, append(migrations.DefaultDomains(), migrations.Log))
	box, err := outbox.Open(outbox.Options{Schema: w.db.Schema, Storage: outbox.Log,
		Telemetry: workqueue.Telemetry{Logger: w.logger()}})
	w.ok(err)
	relay, err := outbox.NewRelay(w.db.Pool, box, outbox.RelayOptions{Subscription: "search"})
	w.ok(err)
	relay.HandleAll(func(context.Context, *outbox.Delivery) error {
		w.handled <- "message of the log"
		return nil
	})
	s, stop := w.running(w.options(), w.relay)
	added := make(chan error, 1)
	go func() { added <- s.Add(t.Context(), relay) }()
	select {
	case err := <-added:
		w.ok(err)
	case <-time.After(patience):
		t.Fatal("Add waits for the subscription")
	}
	w.eventually("the log says what it waits for", func() bool {
		return strings.Contains(w.logs.String(), "the relay waits for it")
	})
	w.eventually("Ready says what it waits for", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "subscribe first")
	})
	w.send()
	w.take("message")
	w.ok(workqueue.InTx(t.Context(), w.db.Pool, func(tx workqueue.Tx) error {
		if err := box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "search"}); err != nil {
			return err
		}
		_, err := box.Enqueue(t.Context(), tx, outbox.Message{Topic: "t"})
		return err
	}))
	w.take("message of the log")
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	w.ok(stop())
}
