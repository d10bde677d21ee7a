package periodic_test

import (
	"context"
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

const patience = pgtest.Patience

// A fixture is a plan for a minimal domain: a table of runs.
type fixture struct {
	*testing.T
	*pgtest.DB
	plan  *periodic.Plan
	table string // of schedules, qualified
}

func newPlan(t *testing.T, configure ...func(*periodic.Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, DB: pgtest.New(t, pgtest.Reused)}
	f.plan = openPlan(t, f.Schema, configure...)
	f.table = f.plan.Table().Name()
	up, _, err := periodic.DDL(f.Schema, "runs_schedule")
	if err != nil {
		t.Fatal(err)
	}
	f.Define(t, up+`; CREATE TABLE runs (key text PRIMARY KEY, schedule text NOT NULL, nominal timestamptz NOT NULL, due_at timestamptz NOT NULL,
		template bytea NOT NULL, ended boolean NOT NULL DEFAULT false, written_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
	return f
}

func openPlan(t testing.TB, schema string, configure ...func(*periodic.Options)) *periodic.Plan {
	t.Helper()
	o := periodic.Options{
		Schema: schema, Table: "runs_schedule", Insert: insertRuns, Live: liveRuns,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}
	for _, change := range configure {
		change(&o)
	}
	plan, err := periodic.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func insertRuns(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
	written := 0
	for _, o := range occurrences {
		n, err := tx.Exec(ctx, "INSERT INTO runs (key, schedule, nominal, due_at, template) VALUES ($1, $2, $3, $4, "+
			"$5) ON CONFLICT DO NOTHING",
			o.Key, o.Schedule, o.Nominal, o.DueAt, o.Template)
		if err != nil {
			return 0, err
		}
		written += int(n)
	}
	return written, nil
}

func liveRuns(ctx context.Context, tx workqueue.Tx, name string) (n int, err error) {
	err = tx.Query(ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT count(*) FROM runs WHERE schedule = $1 AND NOT ended", name)
	return n, err
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
}

func ask[T any](f *fixture, query string, args ...any) (v T) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&v); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	return v
}

func (f *fixture) clock() time.Time { return ask[time.Time](f, "SELECT clock_timestamp()") }

// inTx runs work in a transaction that commits, and returns its error.
func (f *fixture) inTx(work func(tx workqueue.Tx) error) error {
	return pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error { return work(workqueue.Pgx(tx)) })
}

func (f *fixture) do(work func(tx workqueue.Tx) error) {
	f.Helper()
	if err := f.inTx(work); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) put(schedules ...periodic.Schedule) {
	f.Helper()
	f.do(func(tx workqueue.Tx) error { return f.plan.Put(f.Context(), tx, schedules...) })
}

func (f *fixture) get(name string) (i periodic.Info) {
	f.Helper()
	f.do(func(tx workqueue.Tx) (err error) {
		i, err = f.plan.Get(f.Context(), tx, name)
		return err
	})
	return i
}

// missed moves the next time of a schedule into the past, as if no scheduler had run for a while.
func (f *fixture) missed(name string, by time.Duration) {
	f.Helper()
	f.exec("UPDATE "+f.table+" SET next_at = next_at - $2 * interval '1 microsecond', due_at = now() WHERE name = $1",
		name, by.Microseconds())
	f.exec("SELECT pg_notify($1, '0')", f.table)
}

// scheduler runs a scheduler until the test ends or stop is called.
func (f *fixture) scheduler() (stop func()) {
	f.Helper()
	return f.schedulerOf(f.Pool, f.plan)
}

func (f *fixture) schedulerOf(pool *pgxpool.Pool, plan *periodic.Plan) (stop func()) {
	f.Helper()
	return f.schedulerOn(pool, plan, periodic.SchedulerOptions{})
}

func (f *fixture) schedulerWith(o periodic.SchedulerOptions) (stop func()) {
	f.Helper()
	return f.schedulerOn(f.Pool, f.plan, o)
}

func (f *fixture) schedulerOn(pool *pgxpool.Pool, plan *periodic.Plan, o periodic.SchedulerOptions) (stop func()) {
	f.Helper()
	s, err := periodic.NewScheduler(pool, plan, o)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// decided waits until a scheduler has decided about a due schedule.
func (f *fixture) decided(name string) periodic.Info {
	f.Helper()
	f.until("the scheduler has decided about "+name, func() bool {
		return ask[bool](f, "SELECT status <> 1 AND due_at > now() FROM "+f.table+" WHERE name = $1", name)
	})
	return f.get(name)
}

func (f *fixture) until(what string, holds func() bool) {
	f.Helper()
	if !pgtest.Await(patience, holds) {
		f.Fatalf("not within %v: %s", patience, what)
	}
}

func (f *fixture) somebodyWaits() bool { return pgtest.SomebodyWaits(f, f.Pool, f.table) }

// runs returns the nominal times of a schedule's occurrences.
func (f *fixture) runs(name string) []time.Time {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), "SELECT nominal FROM runs WHERE schedule = $1 ORDER BY nominal", name)
	if err != nil {
		f.Fatal(err)
	}
	times, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		f.Fatal(err)
	}
	return times
}

// hourly is an interval, whose occurrences are an hour apart whatever the time of the test.
func hourly(rule schedule.Rule) periodic.Schedule {
	return periodic.Schedule{Name: "s", Expr: "@every 1h", Rule: rule, Template: []byte("t")}
}

// bothWays runs a test in transactions of pgx and of database/sql.
func bothWays(t *testing.T, test func(f *fixture, do func(work func(tx workqueue.Tx) error))) {
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		f := newPlan(t)
		test(f, f.do)
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		f := newPlan(t)
		db := f.SQL(t)
		test(f, func(work func(tx workqueue.Tx) error) {
			t.Helper()
			inSQL(t, db, work)
		})
	})
}

func inSQL(t *testing.T, db *sql.DB, work func(tx workqueue.Tx) error) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := work(workqueue.SQL(tx)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
