package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// named gives the sessions of a pool, and those of runtimes on it, a name by which they are counted.
func (r *rig) named(name string) *pgxpool.Pool {
	return r.openPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name })
}

func (r *rig) runtimeOn(pool *pgxpool.Pool) *workqueue.Runtime {
	r.Helper()
	runtime, err := workqueue.NewRuntime(pool, workqueue.RuntimeOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return runtime
}

// laneRig is a table with one lane for each of the given queues.
func laneRig(t *testing.T) *rig {
	return newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Lanes = []string{"topic"} }})
}

// Workers that share a runtime share its connections and its listener, however many workers there are and however busy
// they are.
func TestWorkersShareARuntime(t *testing.T) {
	t.Parallel()
	r := laneRig(t)
	const queues = 20
	pool := r.named(r.Schema)
	runtime := r.runtimeOn(pool)
	var topics []string
	var workers []*running
	for i := range queues {
		topic := fmt.Sprintf("queue %d", i)
		topics = append(topics, topic)
		workers = append(workers, r.startOn(pool, r.serving(lanes(topic)).Domain,
			workqueue.WorkerOptions{Runtime: runtime}, ackAll))
	}
	r.eventually("a listener", func() bool {
		return ask[bool](r, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND query = "+
			"'LISTEN \"'||$2||'\"')", r.Schema, r.Table.Name())
	})
	most := 0
	for range 20 {
		ids := r.insert(topics...)
		r.eventually("the rows to be done", func() bool {
			most = max(most, ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1",
				r.Schema))
			return r.count("status = 2 AND id = ANY($1)", ids) == len(ids)
		})
	}
	r.eventually("one session to listen", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1 AND query "+
			"LIKE 'LISTEN%'", r.Schema) == 1
	})
	if most > runtime.MaxConnections() {
		t.Errorf("%d queues had %d connections, want at most %d", queues, most, runtime.MaxConnections())
	}
	for _, w := range workers {
		if err := w.stop(t); err != nil {
			t.Error(err)
		}
	}
	r.eventually("the runtime to be closed", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1", r.Schema) == 0
	})
}

// When all workers of a runtime have stopped, it serves new ones, on any table.
func TestARuntimeOpensAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	runtime := r.runtimeOn(r.Pool)
	for range 3 {
		w := r.start(workqueue.WorkerOptions{Runtime: runtime, PollInterval: time.Hour}, ackAll)
		r.awaitListener()
		r.awaitStatus(workqueue.Done, r.insert("again")...)
		if err := w.stop(t); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker joins a runtime that listens already: rows of its table are announced to it. When it has gone, rows of the
// table whose worker stays are announced as before.
func TestListeningFollowsTheWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	other := rigOn(t, r.URL, r.Schema, rigOptions{spec: func(s *workqueue.Spec) { s.Table = "others" }})
	runtime := r.runtimeOn(r.Pool)
	o := workqueue.WorkerOptions{Runtime: runtime, PollInterval: time.Hour}
	r.start(o, ackAll)
	r.awaitListener()
	for range 3 {
		done := make(chan struct{}, 1)
		joined := other.startOn(r.Pool, other.Domain, o, func(context.Context,
			*noteClaim) error {
			done <- struct{}{}
			return nil
		})
		other.awaitListener()
		other.insert("of the other table")
		receive(t, done, "a row of the table that joined")
		if err := joined.stop(t); err != nil {
			t.Fatal(err)
		}
		r.awaitStatus(workqueue.Done, r.insert("of the first table")...)
	}
}

// A locked table with many queues leaves the queues of other tables their connections.
func TestALockedTableLeavesOthersTheirTurn(t *testing.T) {
	t.Parallel()
	r := laneRig(t)
	free := rigOn(t, r.URL, r.Schema, rigOptions{spec: func(s *workqueue.Spec) { s.Table = "others" }})
	runtime := r.runtimeOn(r.Pool)
	for i := range 10 {
		r.serving(lanes(fmt.Sprint(i))).start(workqueue.WorkerOptions{Runtime: runtime,
			PollInterval: 10 * time.Millisecond}, ackAll)
	}
	done := make(chan struct{}, 1000)
	free.startOn(r.Pool, free.Domain, workqueue.WorkerOptions{Runtime: runtime}, func(context.Context,
		*noteClaim) error {
		done <- struct{}{}
		return nil
	})
	free.insert("before")
	receive(t, done, "a row before the lock")
	r.insert("0") // so that the worker is at work

	tx, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE notes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	r.eventually("statements that wait for the table", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM pg_locks WHERE relation = 'notes'::regclass AND NOT granted") >= 4
	})
	for range 20 {
		free.insert("beside the lock")
		receive(t, done, "a row of the other table")
	}
	if n := ask[int](r,
		"SELECT count(*)::int FROM pg_locks WHERE relation = 'notes'::regclass AND NOT granted"); n < 4 {
		t.Errorf("%d statements wait for the table: the other's were not beside them", n)
	}
}

// Workers that poll look together. A locked table does not delay the rows of others, and its own rows are found when
// the lock is released.
func TestALockedTableKeepsNoLookBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	free := rigOn(t, r.URL, r.Schema, rigOptions{spec: func(s *workqueue.Spec) { s.Table = "others" }})
	o := workqueue.WorkerOptions{Runtime: r.runtimeOn(r.Pool), NoListen: true, PollInterval: 50 * time.Millisecond}
	r.start(o, ackAll)
	done := make(chan struct{}, 10)
	free.startOn(r.Pool, free.Domain, o, func(context.Context, *noteClaim) error { done <- struct{}{}; return nil })
	r.awaitStatus(workqueue.Done, r.insert("before")...)
	free.insert("before")
	receive(t, done, "a row before the lock")
	ids := r.insertRows(workqueue.NewRow{DueAt: time.Now().Add(time.Second), Values: []any{"locked", ""}})

	tx, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE notes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.eventually("a look that waits for the table", func() bool {
			return ask[bool](r, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'notes'::regclass AND NOT "+
				"granted)")
		})
		free.insert("beside the lock")
		receive(t, done, "a row of the other table")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, ids...)
}

// A queue has many handlers, all of which settle at the same time, again and again. It leaves the claims of another
// queue their turn, and both queues their renewals.
func TestAQueueWithManyHandlersStarvesNobody(t *testing.T) {
	t.Parallel()
	r := laneRig(t)
	runtime := r.runtimeOn(r.Pool)
	handlers := pgtest.Size(500, 2000)
	longer := time.Duration(pgtest.Size(15, 30)) * pgtest.Lease / 10 // than a lease
	crowd := workqueue.WorkerOptions{Runtime: runtime, Concurrency: handlers, ClaimLimit: handlers / 2}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.serving(lanes("crowd")).start(crowd, func(context.Context, *noteClaim) error {
		if ctx.Err() != nil {
			return nil
		}
		return workqueue.Again(0)
	})
	started := make(chan struct{}, 100)
	holds := func(held chan<- error) func(context.Context, *noteClaim) error {
		return func(ctx context.Context, c *noteClaim) error {
			if c.Body.Topic == "small" {
				started <- struct{}{}
				return nil
			}
			select {
			case <-ctx.Done():
				held <- context.Cause(ctx)
			case <-time.After(longer):
				held <- nil
			}
			return nil
		}
	}
	held, alone := make(chan error, 100), make(chan error, 100)
	small := workqueue.WorkerOptions{Runtime: runtime, Lease: pgtest.Lease}
	r.serving(lanes("small", "long")).start(small, holds(held))
	small.Runtime = r.runtimeOn(r.openPool(nil))
	r.serving(lanes("alone")).start(small, holds(alone))
	r.insertMany("crowd", handlers*3/2)
	r.insert("long")
	r.insert("alone")
	r.reapAllTheWhile() // the reaper takes what comes back after its lease
	for range 50 {
		r.insert("small")
		receive(t, started, "a row beside the crowd")
	}
	err, machine := receive(t, held, "a row that is held for longer than its lease"), receive(t, alone, "one alone")
	if err != nil && machine == nil { // if the machine stands still for a lease, every worker loses its rows
		t.Errorf("its context was cancelled: %v", err)
	}
}

func TestRuntimeOptionsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for connections, valid := range map[int]bool{-1: false, 0: true, 1: false, 2: true, 1001: false} {
		_, err := workqueue.NewRuntime(r.Pool, workqueue.RuntimeOptions{Connections: connections})
		if (err == nil) != valid || err != nil && !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%d connections: %v", connections, err)
		}
	}
	if _, err := workqueue.NewRuntime(nil, workqueue.RuntimeOptions{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("no pool: %v", err)
	}
}

// A worker can join a runtime before it is started, and only a runtime of its own database.
func TestWorkersJoinInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	elsewhere := r.runtimeOn(r.openPool(func(c *pgxpool.Config) { c.ConnConfig.Database = "another" }))
	if _, err := workqueue.NewWorker(r.Pool, r.Domain, ackAll,
		workqueue.WorkerOptions{Runtime: elsewhere}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("a runtime of another database: %v", err)
	}
	w, err := workqueue.NewWorker(r.Pool, r.Domain, ackAll, workqueue.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, runtime := range map[string]*workqueue.Runtime{"no runtime": nil,
		"a runtime of another database": elsewhere} {
		if err := w.Join(runtime); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("joining %s: %v", what, err)
		}
	}
	if err := w.Join(r.runtimeOn(r.Pool)); err != nil {
		t.Error(err)
	}
	started := r.start(workqueue.WorkerOptions{}, ackAll)
	r.eventually("the worker to be ready", func() bool { return started.Ready() == nil })
	if err := started.Join(r.runtimeOn(r.Pool)); err == nil {
		t.Error("a worker that runs has joined another runtime")
	}
}

// MaxConnections counts the announcers: one for each table on which a worker listens.
func TestMaxConnectionsCountsAnnouncers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	other := rigOn(t, r.URL, r.Schema, rigOptions{spec: func(s *workqueue.Spec) { s.Table = "others" }})
	runtime := r.runtimeOn(r.Pool)
	without := runtime.MaxConnections()
	for i, step := range []struct {
		domain workqueue.Domain[note]
		o      workqueue.WorkerOptions
		want   int
	}{
		{r.Domain, workqueue.WorkerOptions{Runtime: runtime, NoListen: true}, 0},
		{r.Domain, workqueue.WorkerOptions{Runtime: runtime}, 1},
		{r.Domain, workqueue.WorkerOptions{Runtime: runtime}, 1},
		{other.Domain, workqueue.WorkerOptions{}, 2},
	} {
		w, err := workqueue.NewWorker(r.Pool, step.domain, ackAll, step.o)
		if err == nil && step.o.Runtime == nil {
			err = w.Join(runtime)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := runtime.MaxConnections() - without; n != step.want {
			t.Errorf("worker %d: %d connections more, want %d", i+1, n, step.want)
		}
	}
}

// A runtime lends connections while its workers run and while none does, and closes them again.
func TestARuntimeLendsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	pool := r.named(r.Schema)
	runtime := r.runtimeOn(pool)
	use := func() {
		t.Helper()
		err := runtime.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { return conn.Ping(t.Context()) })
		if err != nil {
			t.Error(err)
		}
	}
	use()
	w := r.startOn(pool, r.Domain, workqueue.WorkerOptions{Runtime: runtime}, ackAll)
	r.awaitStatus(workqueue.Done, r.insert("a")...)
	use()
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	use()
	if n := pool.Stat().TotalConns(); n > 0 {
		t.Errorf("%d connections of the pool were used", n)
	}
	r.eventually("the runtime to be closed", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1", r.Schema) == 0
	})
	failed := errors.New("failed")
	if err := runtime.AcquireFunc(t.Context(), func(*pgxpool.Conn) error { return failed }); err != failed {
		t.Errorf("got %v, want the error of the function", err)
	}
}
