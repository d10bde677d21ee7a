package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// manyAttempts is enough attempts for all faults of a test.
const manyAttempts = 10_000

// reapNow reaps now and then until the test ends, whatever happens to the server.
func (r *rig) reapAllTheWhile() {
	ctx, cancel := context.WithCancel(context.Background())
	var reaper sync.WaitGroup
	reaper.Go(func() {
		for ctx.Err() == nil {
			r.Queue.ReapExpired(ctx, 1000)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	r.Cleanup(func() { cancel(); reaper.Wait() })
}

// eventuallyUp is eventually for conditions that fail while the server is away.
func (r *rig) eventuallyUp(what, sql string, args ...any) {
	r.Helper()
	r.eventually(what, func() bool {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		var ok bool
		return r.Eyes.QueryRow(ctx, sql, args...).Scan(&ok) == nil && ok
	})
}

// produce inserts rows one by one until the test stops it, and returns those whose commit was confirmed. It stops
// between rows: otherwise a commit that it no longer waits for might arrive while the test checks the result.
func (r *rig) produce() (stop func() []uuid.UUID) {
	ctx, cancel := context.WithCancel(context.Background())
	var producer sync.WaitGroup
	var committed []uuid.UUID
	producer.Go(func() {
		for ctx.Err() == nil {
			var id uuid.UUID
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			err := pgx.BeginFunc(ctx, r.Eyes, func(tx pgx.Tx) error {
				rows, err := r.Table.Insert(ctx, workqueue.Pgx(tx), workqueue.NewRow{MaxAttempts: manyAttempts,
					Values: []any{"load", ""}})
				if err == nil {
					id = rows[0].ID
				}
				return err
			})
			done()
			if err == nil {
				committed = append(committed, id)
			}
			pgtest.Pass(time.Millisecond)
		}
	})
	r.Cleanup(func() { cancel(); producer.Wait() })
	return func() []uuid.UUID {
		cancel()
		producer.Wait()
		return committed
	}
}

// bookInTx is a handler with an effect that must happen exactly once.
func bookInTx(ctx context.Context, c *noteClaim) error {
	return c.Tx(ctx, func(tx pgx.Tx) error { return book(ctx, tx, c) })
}

// checkBooks compares the rows, the ledger and the rows that the producer had confirmed.
func (r *rig) checkBooks(committed []uuid.UUID) {
	r.Helper()
	r.eventuallyUp("every row to be done", "SELECT count(*) FILTER (WHERE status <> 2) = 0 FROM notes")
	if n := r.count("id = ANY($1)", committed); n != len(committed) {
		r.Errorf("%d rows were committed, the table has %d of them", len(committed), n)
	}
	if n := ask[int](r,
		"SELECT count(*)::int FROM (SELECT note FROM ledger GROUP BY note HAVING count(*) > 1) AS twice"); n != 0 {
		r.Errorf("%d rows had their effect more than once", n)
	}
	if rows := ask[*string](r, "SELECT string_agg(notes::text, chr(10)) FROM notes WHERE NOT EXISTS (SELECT FROM "+
		"ledger WHERE note = notes.id)"); rows != nil {
		r.Errorf("rows without their effect:\n%s", *rows)
	}
	if n := ask[int](r, "SELECT count(*)::int FROM ledger"); n < len(committed) || n == 0 {
		r.Errorf("%d effects of %d rows", n, len(committed))
	}
}

// named gives a pool's connections, and those of its worker, a name that the test knows.
func named(name string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name }
}

func (r *rig) terminate(name string) int {
	r.Helper()
	return ask[int](r, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE application_name = $1",
		name)
}

// Every connection of the worker is cut, again and again, including the listener's.
func TestWorkerSurvivesTheLossOfItsConnections(t *testing.T) {
	t.Parallel()
	name := uuid.NewString()
	r := newLedgerRig(t, rigOptions{pool: named(name)})
	r.reapAllTheWhile()
	r.start(workqueue.WorkerOptions{Lease: workqueue.MinLease}, bookInTx)
	stop := r.produce()
	for round := range 8 {
		before := ask[int](r, "SELECT count(*)::int FROM ledger")
		r.eventually("progress", func() bool { return ask[int](r, "SELECT count(*)::int FROM ledger") > before+5 })
		if n := r.terminate(name); n == 0 {
			t.Errorf("round %d: the worker had no connection", round)
		}
	}
	r.checkBooks(stop())
	r.awaitListener()
}

// This test has a server of its own, because other tests could not bear what it does to the server.
func TestWorkerSurvivesItsServer(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	newSchema := func(t *testing.T, schema string, o rigOptions) *rig {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		r := rigOn(t, server.URL()+"&search_path="+schema, schema, o)
		r.createLedger()
		return r
	}

	t.Run("crashes under load", func(t *testing.T) {
		r := newSchema(t, "crash", rigOptions{})
		r.reapAllTheWhile()
		for range 2 {
			r.start(workqueue.WorkerOptions{Lease: workqueue.MinLease}, bookInTx)
		}
		stop := r.produce()
		for range 3 {
			r.eventuallyUp("progress", "SELECT count(*) > 20 FROM ledger WHERE note IN (SELECT id FROM notes WHERE "+
				"created_at > pg_postmaster_start_time())")
			if err := server.Crash(); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.eventuallyUp("progress", "SELECT count(*) > 20 FROM ledger WHERE note IN (SELECT id FROM notes WHERE "+
			"created_at > pg_postmaster_start_time())")
		r.checkBooks(stop())
	})

	t.Run("comes later than the worker", func(t *testing.T) {
		r := newSchema(t, "later", rigOptions{})
		ids := r.insertMany("waiting", 3)
		if err := server.Crash(); err != nil {
			t.Fatal(err)
		}
		w := r.start(workqueue.WorkerOptions{}, bookInTx)
		r.eventually("a complaint", func() bool { return strings.Contains(r.Logs.String(), "level=ERROR") })
		select {
		case <-w.done:
			t.Fatalf("Run returned %v", w.err)
		default:
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.eventuallyUp("the rows", "SELECT count(*) = 3 FROM notes WHERE status = 2 AND id = ANY($1)", ids)
	})

	t.Run("turns read-only", func(t *testing.T) {
		r := newSchema(t, "readonly", rigOptions{pool: named("readonly worker")})
		r.Eyes = r.openPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[pgtest.RefuseWrites] = "off" })
		r.exec(pgtest.RefusingWrites("notes"))
		started, release := make(chan struct{}, 1), make(chan struct{})
		refusedTx := make(chan error, 1)
		r.start(workqueue.WorkerOptions{Lease: time.Hour}, func(ctx context.Context, c *noteClaim) error {
			if c.Body.Topic != "caught" || c.Attempt > 1 {
				return bookInTx(ctx, c)
			}
			started <- struct{}{}
			<-release
			err := bookInTx(ctx, c)
			refusedTx <- err
			return err
		})
		caught := r.insert("caught")[0]
		receive(t, started, "the handler")
		r.exec("ALTER DATABASE postgres SET " + pgtest.RefuseWrites + " = on")
		defer r.exec("ALTER DATABASE postgres RESET " + pgtest.RefuseWrites)
		r.terminate("readonly worker")
		r.eventually("refused claims", func() bool {
			return r.Events.count(refused("claim", workqueue.ErrReadOnly)) >= 2
		})
		close(release)
		if err := receive(t, refusedTx, "Tx"); err == nil {
			t.Error("Tx wrote to a read-only database")
		}
		waiting := r.insertMany("waiting", 5)
		r.eventually("refused settles", func() bool {
			return r.Events.count(refused("settle", workqueue.ErrReadOnly)) >= 1
		})
		if log := r.Logs.String(); !strings.Contains(log, "read-only") || !strings.Contains(log, "primary") {
			t.Errorf("the logs do not say what is wrong:\n%s", r.Logs.tail())
		}
		if n := r.count("id = ANY($1) AND attempts > 0", waiting); n > 0 {
			t.Errorf("%d rows were claimed", n)
		}
		r.exec("ALTER DATABASE postgres RESET " + pgtest.RefuseWrites)
		r.awaitStatus(workqueue.Done, append(waiting, caught)...)
		if row := r.row(caught); row.Attempts != 2 {
			t.Errorf("the row that was caught half-way took %d attempts, want 2: connections stay read-only",
				row.Attempts)
		}
		r.checkBooks(append(waiting, caught))
	})
}

func TestWorkerRefusesAnotherSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, advice string }{
		"missing":    {"DROP TABLE notes CASCADE", "run your own migration"},
		"older":      {"COMMENT ON TABLE notes IS 'txwork core 0'", "run your own migration"},
		"newer":      {"COMMENT ON TABLE notes IS 'txwork core 9999'", "upgrade the library"},
		"no comment": {"COMMENT ON TABLE notes IS NULL", "not made by txwork"},
		"unrelated":  {"COMMENT ON TABLE notes IS 'Our notes.'", "not made by txwork"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.insert("untouched")
			r.exec(c.sql)
			w := r.start(workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error {
				t.Error("a handler was called")
				return nil
			})
			err := w.wait(t)
			if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), c.advice) ||
				!strings.Contains(err.Error(), r.Table.Name()) {
				t.Errorf("Run returned %v, want ErrSchemaVersion with the advice %q", err, c.advice)
			}
		})
	}
}

// A table that disappears under a running worker is a temporary error, and does not end the worker.
func TestWorkerSurvivesAMissingTable(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: 20 * time.Millisecond}, ackAll)
	r.exec("ALTER TABLE notes RENAME TO away")
	r.eventually("refused claims", func() bool {
		return r.Events.count(refused("claim", workqueue.ErrSchemaVersion)) >= 1
	})
	r.exec("ALTER TABLE away RENAME TO notes")
	r.awaitStatus(workqueue.Done, r.insert("afterwards")...)
}

// A settle is repeated until it is known to be applied: a lost reply is not a lost lease.
func TestSettleIsRepeatedWhenItsReplyIsLost(t *testing.T) {
	t.Parallel()
	var wanted, armed atomic.Bool
	var lost atomic.Int64
	r := newRig(t, rigOptions{
		spec: func(s *workqueue.Spec) { s.Retry = never },
		pool: func(c *pgxpool.Config) { loseReply(c, settleForgetter{&armed}, &lost) },
	})
	// Every row of a round is claimed before the first settle. It is also claimed before the cutter is armed, which may
	// still hit the last settle of the previous round: if the reply to a claim is lost, the rows are left to their
	// leases.
	var claimed sync.WaitGroup
	r.start(workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 100}, func(_ context.Context, c *noteClaim) error {
		claimed.Done()
		claimed.Wait()
		if wanted.CompareAndSwap(true, false) {
			armed.Store(true)
		}
		if c.Body.Topic == "retry" {
			return errors.New("boom")
		}
		return nil
	})
	// A reply may come in two pieces, neither of which is recognized: then there is another round, of another size.
	for round := 1; lost.Load() < 3; round++ {
		if round > 50 {
			t.Fatalf("%d replies were lost in 50 rounds", lost.Load())
		}
		wanted.Store(true)
		half := 1 + 7*round%40
		claimed.Add(2 * half)
		topics := slices.Concat(slices.Repeat([]string{"ack"}, half), slices.Repeat([]string{"retry"}, half))
		ids := r.insert(topics...)
		r.awaitStatus(workqueue.Done, ids[:half]...)
		r.eventually("the retries", func() bool {
			return r.count("id = ANY($1) AND status = 0 AND last_error = 'boom'", ids[half:]) == half
		})
	}
	if n := r.count("attempts <> 1"); n != 0 {
		t.Errorf("%d rows ran again", n)
	}
}

// A session that holds one row with FOR UPDATE for a long time delays that row and no other.
func TestLockedRowDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("a", 200)
	handled := make(chan uuid.UUID, len(ids))
	proceed := make(chan struct{})
	r.start(workqueue.WorkerOptions{Concurrency: len(ids), ClaimLimit: len(ids)}, func(_ context.Context,
		c *noteClaim) error {
		handled <- c.ID
		<-proceed
		return nil
	})
	for range ids {
		receive(t, handled, "every row is in progress")
	}
	locks, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Rollback(context.Background())
	if _, err := locks.Exec(t.Context(), "SELECT FROM notes WHERE id = ANY ($1) FOR UPDATE", ids[:3]); err != nil {
		t.Fatal(err)
	}
	close(proceed)
	r.awaitStatus(workqueue.Done, ids[3:]...)
	later := r.insertMany("b", 50)
	r.awaitStatus(workqueue.Done, later...)
	if n := r.count("id = ANY ($1) AND status = 1", ids[:3]); n != 3 {
		t.Errorf("%d of the locked rows are in progress, want 3", n)
	}
	if err := locks.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, ids[:3]...)
}

// A worker that stops waits for the lock no longer than for a handler.
func TestLockedRowKeepsNoWorkerFromStopping(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insert("a")
	locks, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Rollback(context.Background())
	locked := make(chan error, 1)
	w := r.start(workqueue.WorkerOptions{ShutdownTimeout: time.Second}, func(_ context.Context, c *noteClaim) error {
		_, err := locks.Exec(context.Background(), "SELECT FROM notes WHERE id = $1 FOR UPDATE", c.ID)
		locked <- err
		return err
	})
	if err := receive(t, locked, "the row is locked"); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if row := r.row(ids[0]); row.Status != workqueue.InProgress {
		t.Errorf("the row is %v", row.Status)
	}
}
