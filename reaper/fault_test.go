package reaper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// At whatever statement the context ends, the report says what was committed, nothing else has changed, and another
// reaper can go on at once.
func TestCancelAtEveryStatement(t *testing.T) {
	t.Parallel()
	for step := int64(1); ; step++ {
		ctx, cancel := context.WithCancel(t.Context())
		var statements atomic.Int64
		var armed atomic.Bool
		db := newDatabase(t, traced(func(string) {
			if armed.Load() && statements.Add(1) == step {
				cancel()
			}
		}))
		table := db.table(workqueue.Spec{Table: "work"})
		db.rows(table, 15, expired)
		o := db.options()
		o.BatchSize, o.Lease = 10, time.Hour

		armed.Store(true)
		report, err := reaper.RunOnce(ctx, db.Pool, []*workqueue.Table{table}, o)
		armed.Store(false)
		cancel()

		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at statement %d: %v", step, err)
		}
		// A batch whose COMMIT was interrupted is not reported, whether it was committed or not.
		first := report.Total().Requeued
		after := db.count(table, workqueue.Ready)
		if n := after - first; n != 0 && n != 10 && n != 5 {
			t.Errorf("cancelled at statement %d: %d rows reported, %d changed", step, first, after)
		}
		db.await("leadership that was given up", func() bool {
			l := db.leader(table)
			return l == nil || l.ExpiresIn <= 0
		})
		if second := db.runOnce(o, table); second.Total().Requeued != 15-after {
			t.Errorf("cancelled at statement %d: %d rows, then %+v", step, after, second)
		}
		if err == nil {
			if step < 10 {
				t.Errorf("statement %d was the last", step)
			}
			return
		}
	}
}

// A panic at any of the reaper's statements ends only the round, and neither the program nor the reaper. The table has
// sweeps, so that the reaper performs every operation.
func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	var statements, panics atomic.Int64
	var armed atomic.Bool
	db := newDatabase(t, traced(func(string) {
		if n := statements.Add(1); armed.Load() && n%7 == 0 {
			panics.Add(1)
			panic("a tracer's")
		}
	}))
	table := db.table(workqueue.Spec{Table: "work", Sweeps: []string{"sweep"}})
	db.exec("CREATE FUNCTION " + db.Schema + ".work_sweep(integer) RETURNS integer LANGUAGE sql AS 'SELECT 0'")
	db.rows(table, 40, expired)
	o := db.options()
	o.BatchSize = 10
	armed.Store(true)
	if _, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, o); err == nil ||
		!strings.Contains(err.Error(), "a tracer's") {
		t.Errorf("a round with a panic returned %v", err)
	}
	stop := db.run(db.Pool, o, table)
	db.await("rounds with panics", func() bool { return panics.Load() >= 3 })
	armed.Store(false)
	db.await("expired rows to be reaped", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	stop()
}

func TestRunSurvivesKilledConnections(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	pool := namedPool(t, db.URL, db.Schema)
	table := db.observed(workqueue.Spec{Table: "work"}, func(context.Context,
		workqueue.Event) {
		pgtest.Pass(10 * time.Millisecond)
	})
	db.rows(table, 100, expired)
	o := db.options()
	o.BatchSize = 2
	db.run(pool, o, table)
	for range 5 {
		db.await("connection to kill", func() bool {
			return db.int("SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+
				"application_name = $1) AS k", db.Schema) > 0
		})
		pgtest.Pass(20 * time.Millisecond)
	}
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	if n := db.int("SELECT count(*) FROM " + table.Name() + " WHERE status = 0 AND attempts = 1"); n != 100 {
		t.Errorf("%d rows Ready after one attempt, want 100", n)
	}
}

func TestRunSurvivesARestart(t *testing.T) {
	t.Parallel()
	server, db := newServer(t, nil)
	table := db.table(workqueue.Spec{Table: "work"})
	var log logged
	o := db.options()
	o.Logger = log.logger()
	pool := newPool(t, server.URL())
	db.run(pool, o, table)
	db.awaitTerm(table, 1)

	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	db.await("logged failure", func() bool { return strings.Contains(log.String(), "database does not answer") })
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Pool.Reset()
	db.rows(table, 10, expired)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
}

// Run waits for a database that is not there yet, and for one that is not migrated yet.
func TestRunWaitsForMigrations(t *testing.T) {
	t.Parallel()
	db := &database{pgtest.New(t), t}
	spec := workqueue.Spec{Table: "work"}
	var log logged
	o := db.options()
	o.Logger = log.logger()
	db.run(db.Pool, o, db.open(spec, nil))
	db.await("logged failure", func() bool { return strings.Contains(log.String(), "txwork migrate up") })
	db.createLeader()
	table := db.table(spec)
	db.rows(table, 10, expired)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
}

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 10, expired)
	db.exec(pgtest.RefusingWrites(db.Schema + ".leader"))
	readOnly := newPool(t, db.URL+"&"+pgtest.RefuseWrites+"=on")

	_, err := reaper.RunOnce(t.Context(), readOnly, []*workqueue.Table{table}, db.options())

	if !errors.Is(err, workqueue.ErrReadOnly) || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("error %v, want ErrReadOnly and the remedy", err)
	}
	if n := db.count(table, workqueue.InProgress); n != 10 {
		t.Errorf("%d rows in progress, want 10", n)
	}
}

// A server becomes read-only and writable again, as in a failover. The reaper closes the connection, and the next one
// finds a writable server.
func TestRunSurvivesReadOnlyTimes(t *testing.T) {
	t.Parallel()
	server, db := newServer(t, nil)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 10, expired)
	// The role has only the privileges that the package documentation requires.
	db.exec(`CREATE ROLE app LOGIN;
		GRANT USAGE ON SCHEMA own TO app;
		GRANT SELECT, UPDATE, DELETE ON own.work TO app;
		GRANT SELECT, INSERT, UPDATE ON own.leader TO app;
		ALTER ROLE app SET ` + pgtest.RefuseWrites + ` = on;` + pgtest.RefusingWrites("own.leader"))
	var log logged
	o := db.options()
	o.Logger = log.logger()
	db.run(newPool(t, strings.Replace(server.URL(), "postgres@", "app@", 1)), o, table)
	db.await("logged failure", func() bool { return strings.Contains(log.String(), "read-only") })
	db.exec("ALTER ROLE app RESET " + pgtest.RefuseWrites)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
}

// Elections and batches are READ COMMITTED whatever the session's default. At a stricter level, a row that has changed
// concurrently would fail the transaction.
func TestStricterIsolationByDefault(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.rows(table, 30, expired)
	db.exec(`CREATE FUNCTION check_isolation() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('transaction_isolation') <> 'read committed' THEN RAISE 'isolation'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER check_isolation AFTER INSERT OR UPDATE ON leader FOR EACH ROW EXECUTE FUNCTION check_isolation();
		CREATE TRIGGER check_isolation AFTER UPDATE ON work FOR EACH ROW EXECUTE FUNCTION check_isolation();`)
	for _, level := range []string{"repeatable%20read", "serializable"} {
		pool := newPool(t, db.URL+"&default_transaction_isolation="+level)
		o := db.options()
		o.BatchSize = 10
		if _, err := reaper.RunOnce(t.Context(), pool, []*workqueue.Table{table}, o); err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
	if n := db.count(table, workqueue.Ready); n != 30 {
		t.Errorf("%d rows Ready, want 30", n)
	}
}

func TestRunReturnsOnlyWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reaper.Run(ctx, db.Pool, []*workqueue.Table{table}, db.options()); err != nil {
		t.Errorf("Run with an ended context: %v", err)
	}
}

// namedPool opens a pool whose connections have an application_name, so that they can be found.
func namedPool(t testing.TB, url, name string) *pgxpool.Pool {
	t.Helper()
	return newPool(t, fmt.Sprintf("%s&application_name=%s", url, name))
}

// logged records log lines.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// After a crash of the only reaper, its successor waits for the lease, and tells so.
func TestAReaperThatStandsBySaysSo(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	stop := db.run(db.Pool, db.options(), table)
	db.awaitTerm(table, 1)

	var log logged
	o := db.options()
	o.Logger = log.logger()
	db.run(db.Pool, o, table)
	db.await("line that it stands by", func() bool { return strings.Contains(log.String(), "reaper stands by") })
	stop()
	db.await("line that it leads", func() bool { return strings.Contains(log.String(), "reaper leads") })
	if n := strings.Count(log.String(), "reaper stands by"); n != 1 {
		t.Errorf("it said %d times that it stands by:\n%s", n, log.String())
	}
}

// An application that took the tables of some domains into its own migrations is told which domain is missing.
func TestAMissingLeaderTableNamesItsDomain(t *testing.T) {
	t.Parallel()
	db := &database{pgtest.New(t), t}
	table := db.table(workqueue.Spec{Table: "work"})
	_, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, db.options())
	for what, err := range map[string]error{"RunOnce": err, "Leaders": errorOf(reaper.Leaders(t.Context(), db.Pool,
		db.Schema))} {
		if !errors.Is(err, workqueue.ErrSchemaVersion) ||
			!strings.Contains(err.Error(), "run `txwork migrate up --domain reaper --schema "+db.Schema+"`") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }
