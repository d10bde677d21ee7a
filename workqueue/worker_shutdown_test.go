package workqueue_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// Running handlers finish and are settled; rows that no handler has started are returned with their attempt.
func TestShutdownFinishesWhatRunsAndReleasesTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	const concurrency = 3
	r.insertMany("first", 400) // fast ones, so that the worker buffers
	started := make(chan struct{}, concurrency)
	release := make(chan struct{})
	w := r.start(workqueue.WorkerOptions{Concurrency: concurrency, Lease: time.Hour}, func(ctx context.Context,
		c *noteClaim) error {
		if c.Body.Topic == "first" {
			return nil
		}
		started <- struct{}{}
		<-release
		if ctx.Err() != nil {
			t.Errorf("a handler that is to finish had its context cancelled: %v", context.Cause(ctx))
		}
		return nil
	})
	r.insertMany("second", 200)
	for range concurrency {
		receive(t, started, "the handlers")
	}
	w.cancel()
	r.eventually("the rest to be released", func() bool { return r.count("status = 1") <= concurrency })
	close(release)
	if err := w.wait(t); err != nil {
		t.Error(err)
	}
	if n := r.count("status = 1"); n != 0 {
		t.Errorf("%d rows are left in progress", n)
	}
	if n := r.count("topic = 'second' AND status = 2"); n != concurrency {
		t.Errorf("%d running handlers were settled, want %d", n, concurrency)
	}
	if n := r.count("status = 0 AND (attempts <> 0 OR due_at > now() OR last_error IS NOT NULL)"); n != 0 {
		t.Errorf("%d rows that nobody started are not as they were", n)
	}
	select {
	case <-started:
		t.Error("a handler was started after the shutdown began")
	default:
	}
	r.start(workqueue.WorkerOptions{}, ackAll)
	r.eventually("another worker to finish", func() bool { return r.count("status <> 2") == 0 })
}

// The context of handlers that take too long is cancelled; a failure that follows from that does not count.
func TestShutdownCancelsLateHandlers(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	results := map[string]struct {
		result   func(context.Context, *noteClaim) error
		status   workqueue.Status
		attempts int
	}{
		"ctx error": {func(ctx context.Context, _ *noteClaim) error { return ctx.Err() }, workqueue.Ready, 0},
		"wrapped": {func(ctx context.Context, _ *noteClaim) error { return errors.Join(boom, ctx.Err()) },
			workqueue.Ready, 0},
		"ack": {func(context.Context, *noteClaim) error { return nil }, workqueue.Done, 1},
		"permanent": {func(context.Context, *noteClaim) error { return workqueue.Permanent(boom) }, workqueue.Failed,
			1},
		"snooze": {func(context.Context, *noteClaim) error { return workqueue.Snooze(0) }, workqueue.Ready, 0},
		"in Tx": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT 1"); return err })
		}, workqueue.Ready, 0},
	}
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	started := make(chan struct{}, len(results))
	w := r.start(workqueue.WorkerOptions{Concurrency: len(results),
		ShutdownTimeout: 50 * time.Millisecond}, func(ctx context.Context, c *noteClaim) error {
		started <- struct{}{}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, workqueue.ErrShutdown) {
			t.Errorf("the context ended with %v", cause)
		}
		return results[c.Body.Topic].result(ctx, c)
	})
	for name := range results {
		r.insert(name)
	}
	for range results {
		receive(t, started, "the handlers")
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	for name, want := range results {
		if n := r.count("topic = $1 AND status = $2 AND attempts = $3", name, int(want.status), want.attempts); n != 1 {
			t.Errorf("%s: not %v after %d attempts: %s", name, want.status, want.attempts, r.summary())
		}
	}
}

// Handlers that never return are reported, and do no harm if they do return later.
func TestShutdownReportsHandlersThatNeverReturn(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.createLedger()
	endings := map[string]func(context.Context, *noteClaim) error{
		"ack":    func(context.Context, *noteClaim) error { return nil },
		"error":  func(context.Context, *noteClaim) error { return errors.New("boom") },
		"panic":  func(context.Context, *noteClaim) error { panic("late") },
		"goexit": func(context.Context, *noteClaim) error { runtime.Goexit(); return nil },
		"tx": func(_ context.Context, c *noteClaim) error {
			return c.Tx(context.Background(), func(tx pgx.Tx) error { return book(context.Background(), tx, c) })
		},
	}
	started, release := make(chan struct{}, len(endings)), make(chan struct{})
	var late sync.WaitGroup
	w := r.start(workqueue.WorkerOptions{Concurrency: 10, Lease: time.Hour,
		ShutdownTimeout: 20 * time.Millisecond}, func(ctx context.Context, c *noteClaim) error {
		ending := endings[c.Body.Topic]
		if ending == nil {
			return nil
		}
		late.Add(1)
		defer late.Done()
		started <- struct{}{}
		<-release // ignores ctx
		return ending(ctx, c)
	})
	r.awaitStatus(workqueue.Done, r.insertMany("quick", 20)...)
	for name := range endings {
		r.insert(name)
	}
	for range endings {
		receive(t, started, "the handlers")
	}
	err := w.stop(t)
	if err == nil || !strings.Contains(err.Error(), "5 handlers") || !strings.Contains(err.Error(), r.Table.Name()) {
		t.Errorf("Run returned %v", err)
	}
	if n := r.count("status = 1"); n != len(endings) {
		t.Errorf("%d rows are in progress, want those of the handlers that still run", n)
	}
	close(release)
	late.Wait()
	if n := r.count("topic = 'tx' AND status = 2"); n != 1 {
		t.Error("a late Tx under a good lease was not settled")
	}
}

// Whenever the context ends, Run returns, no row is left claimed, and no goroutine leaks.
func TestShutdownAtEveryStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	run := func(ctx context.Context, o workqueue.WorkerOptions, pool *pgxpool.Pool, handler workqueue.Handler[note]) {
		t.Helper()
		w, err := workqueue.NewWorker(pool, r.Domain, handler, o)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		if err := receive(t, done, "Run"); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if n := r.count("status = 1"); n != 0 {
			t.Errorf("%d rows are left in progress", n)
		}
	}
	atBatch := func(part string, n int32, do func()) *pgxpool.Pool {
		var seen atomic.Int32
		return r.openPool(func(c *pgxpool.Config) {
			c.ConnConfig.Tracer = batchHook(func(sql string) {
				if strings.Contains(sql, part) && seen.Add(1) == n {
					do()
				}
			})
		})
	}
	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		run(ctx, workqueue.WorkerOptions{}, r.Pool, ackAll)
	})
	t.Run("while opening", func(t *testing.T) {
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			pool := r.openPool(func(c *pgxpool.Config) {
				c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { go cancel(); return nil }
			})
			run(ctx, workqueue.WorkerOptions{}, pool, ackAll)
			pool.Close()
		}
	})
	for name, part := range map[string]string{"claiming": "attempts = t.attempts + 1", "settling": "SET status = 2"} {
		t.Run("while "+name, func(t *testing.T) {
			for n := range int32(6) {
				r.insertMany("some", 300)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				pool := atBatch(part, n+1, func() { go cancel() })
				r.whenDone(ctx, cancel) // there may be fewer of them
				run(ctx, workqueue.WorkerOptions{Lease: time.Hour}, pool, ackAll)
				pool.Close()
			}
			if n := r.count("attempts > 1 OR status = 0 AND attempts > 0"); n != 0 {
				t.Errorf("%d rows were started and not settled, or counted an attempt without one", n)
			}
		})
	}
	t.Run("while handling", func(t *testing.T) {
		r.insertMany("some", 300)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls atomic.Int32
		run(ctx, workqueue.WorkerOptions{Lease: time.Hour}, r.Pool, func(context.Context, *noteClaim) error {
			if calls.Add(1) == 50 {
				cancel()
			}
			return nil
		})
	})
	t.Run("without a database", func(t *testing.T) {
		p := newProxy(t)
		p.down()
		pool := r.openPool(p.through)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			run(ctx, workqueue.WorkerOptions{}, pool, ackAll)
			cancel()
		}
	})
	t.Run("a silent database", func(t *testing.T) {
		p := newProxy(t)
		pool := r.openPool(p.through)
		p.freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		run(ctx, workqueue.WorkerOptions{}, pool, ackAll)
		p.cut()
	})
}

// whenDone calls a function when every row is done.
func (r *rig) whenDone(ctx context.Context, do func()) {
	var watcher sync.WaitGroup
	watcher.Go(func() {
		defer do()
		var done bool
		for !done && ctx.Err() == nil {
			r.Eyes.QueryRow(ctx, "SELECT count(*) = 0 FROM notes WHERE completed_at IS NULL").Scan(&done)
		}
	})
	r.Cleanup(watcher.Wait)
}

// A database that goes away during the shutdown cannot keep the worker from stopping.
func TestShutdownWithoutADatabase(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	r := newRig(t, rigOptions{pool: p.through})
	started, release := make(chan struct{}, 1), make(chan struct{})
	w := r.start(workqueue.WorkerOptions{Lease: time.Hour,
		ShutdownTimeout: 100 * time.Millisecond}, func(context.Context, *noteClaim) error {
		started <- struct{}{}
		<-release
		return nil
	})
	id := r.insert("unsettled")[0]
	receive(t, started, "the handler")
	p.down()
	close(release)
	if err := w.stop(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if row := r.row(id); row.Status != workqueue.InProgress {
		t.Errorf("%+v", row)
	}
}

func TestWorkerRunsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	w := r.startIdle(workqueue.WorkerOptions{}, ackAll)
	for range 2 {
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "make a new one") {
			t.Errorf("Run returned %v", err)
		}
		w.stop(t)
	}
	w.Wake() // after the end it has no effect
}

func TestNewWorkerRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	good := r.Domain
	for field, make := range map[string]func() error{
		"pool": func() error {
			_, err := workqueue.NewWorker(nil, good, ackAll, workqueue.WorkerOptions{})
			return err
		},
		"domain": func() error {
			_, err := workqueue.NewWorker(r.Pool, workqueue.Domain[note]{Table: r.Table}, ackAll,
				workqueue.WorkerOptions{})
			return err
		},
		"handler": func() error {
			_, err := workqueue.NewWorker(r.Pool, good, nil, workqueue.WorkerOptions{})
			return err
		},
		"concurrency": func() error { return r.refuse(workqueue.WorkerOptions{Concurrency: -1}) },
		"claim limit": func() error {
			return r.refuse(workqueue.WorkerOptions{ClaimLimit: workqueue.MaxBatch + 1})
		},
		"lease":            func() error { return r.refuse(workqueue.WorkerOptions{Lease: time.Second - 1}) },
		"poll interval":    func() error { return r.refuse(workqueue.WorkerOptions{PollInterval: -1}) },
		"claim cooldown":   func() error { return r.refuse(workqueue.WorkerOptions{ClaimCooldown: -1}) },
		"handler timeout":  func() error { return r.refuse(workqueue.WorkerOptions{HandlerTimeout: -1}) },
		"shutdown timeout": func() error { return r.refuse(workqueue.WorkerOptions{ShutdownTimeout: -1}) },
		"lanes": func() error {
			return r.serving([][]any{{"one too many"}}).refuse(workqueue.WorkerOptions{})
		},
	} {
		var invalid *workqueue.InvalidError
		if err := make(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func (r *rig) refuse(o workqueue.WorkerOptions) error {
	_, err := workqueue.NewWorker(r.Pool, r.Domain, ackAll, o)
	return err
}
