package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// A logLife are sessions that use a log in each way, in transactions that lock its tables in different orders.
type logLife struct {
	*testing.T
	pool *pgxpool.Pool
	mu   sync.Mutex
	odd  map[string]string // errors that the removal of a log does not explain

	rests atomic.Bool // nobody begins anything
}

// A transaction of them is rolled back if the log is gone.
func (l *logLife) run(ctx context.Context, done *atomic.Int64, statements ...string) {
	for ctx.Err() == nil {
		if pgtest.Pass(5 * time.Millisecond); l.rests.Load() {
			continue
		}
		err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
				pgtest.Pass(time.Millisecond)
			}
			return nil
		})
		l.note(ctx, err)
		done.Add(1)
	}
}

// note keeps errors other than those of tables, functions and subscriptions that are not there.
func (l *logLife) note(ctx context.Context, err error) {
	var pg *pgconn.PgError
	if err == nil || ctx.Err() != nil {
		return
	}
	if !errors.As(err, &pg) {
		pg = &pgconn.PgError{Code: "none"}
	}
	switch pg.Code {
	case "42P01", "42883", "42704", "22023": // and a type
	case "55P03": // ticks and appends bound their waits
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.odd[pg.Code] = fmt.Sprint(err, ": ", pg.Detail)
	}
}

// A log is taken back and made again while producers, consumers, operators and maintenance use it, and none of them
// notices anything but that it is gone.
func TestALogIsTakenBackWhileItIsUsed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
		Domains: []migrations.Domain{migrations.Log}, LockTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	up(t, m)
	l := &logLife{T: t, odd: map[string]string{}, pool: pgtest.NewPool(t, db,
		pgtest.WithPool(func(c *pgxpool.Config) {
			c.MaxConns, c.ConnConfig.DefaultQueryExecMode = 12, pgx.QueryExecModeExec // no plans of what was dropped
		}))}
	const token = "'00000000-0000-0000-0000-000000000001'"
	writes := []string{"SELECT outbox_log_append('t', '', 'k')", "SELECT outbox_log_append('t', '')",
		"SELECT outbox_log_append('t', '', dedup_key => gen_random_uuid()::text)",
		"SELECT outbox_log_append('t', '', scheduled_at => now() + interval '50 milliseconds')"}
	uses := [][]string{
		{"SELECT outbox_log_subscribe('s') WHERE NOT EXISTS (SELECT FROM outbox_log_subscription)"},
		{"SELECT * FROM outbox_log_fetch('s', " + token + ", '1 minute', 10)",
			`SELECT outbox_log_settle('s', ` + token + `, p.page, coalesce((SELECT jsonb_build_array(
				jsonb_build_object('seq', min(m.seq))) FROM outbox_log AS m WHERE m.seq = p.page), '[]'))
			FROM outbox_log_position AS p WHERE p.page IS NOT NULL`,
			"SELECT outbox_log_release('s', " + token + ")"},
		{"SELECT outbox_log_parked_trim(100)", "SELECT count(*) FROM outbox_log_parked"},
		{"SELECT outbox_log_pause('s')", "SELECT outbox_log_resume('s')", "SELECT outbox_log_replay('s', '-infinity')"},
		{"SELECT * FROM outbox_log_lag()", "SELECT count(*) FROM outbox_log_later"},
	}
	for i := range writes {
		uses = append(uses, append(append([]string{}, writes[i:]...), writes[:i]...))
	}
	ctx, stop := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	done := make([]atomic.Int64, len(uses)+1)
	for i, use := range uses {
		parts.Go(func() { l.run(ctx, &done[i], use...) })
	}
	parts.Go(func() {
		for ctx.Err() == nil {
			if pgtest.Pass(5 * time.Millisecond); l.rests.Load() {
				continue
			}
			_, err := l.pool.Exec(ctx, "CALL outbox_log_tick()")
			l.note(ctx, err)
			done[len(uses)].Add(1)
		}
	})
	for range pgtest.Size(1, 10) {
		for i := range done {
			before := done[i].Load()
			if !pgtest.Await(pgtest.Patience, func() bool { return done[i].Load() >= before+10 }) {
				t.Errorf("part %d stands still", i)
			}
		}
		// It may not get all locks while so many use the tables in all orders. Then it has done nothing.
		_, err := m.DownTo(t.Context(), 2)
		if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "55P03" {
			l.rests.Store(true)
			err = untilLocked(t.Context(), m)
		}
		if err != nil {
			t.Fatalf("migrate down: %v", err)
		}
		l.rests.Store(false)
		up(t, m)
	}
	stop()
	parts.Wait()
	for _, err := range l.odd {
		t.Error(err)
	}
}

// withLog has all tables, and a log.
func withLog(t *testing.T) (*pgtest.DB, *migrations.Migrator) {
	t.Helper()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	m := newMigratorOf(t, db.Pool, db.Schema, migrations.Log)
	up(t, m)
	return db, m
}

// A transaction that has used one relation of the log, and then uses all tables, meets its removal while that waits. A
// savepoint that is rolled back keeps the lock of a sequence, and not that of its table.
func TestTheRemovalOfALogHoldsNothingWhileItWaits(t *testing.T) {
	t.Parallel()
	db, m := withLog(t)
	tables := lines(t, db.Pool, `SELECT relname::text FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relname LIKE 'outbox\_log%' AND relkind IN ('r', 'p')`, db.Schema)
	for _, use := range []string{
		"LOCK TABLE outbox_log_dedup IN ROW EXCLUSIVE MODE",
		"SAVEPOINT s; INSERT INTO outbox_log (topic, payload) VALUES ('t', ''); ROLLBACK TO s",
		"SAVEPOINT s; SELECT outbox_log_append('t', '', scheduled_at => now() + interval '1 day'); ROLLBACK TO s",
	} {
		application, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer application.Rollback(context.WithoutCancel(t.Context()))
		uses := func(text string) {
			t.Helper()
			if _, err := application.Exec(t.Context(), text); err != nil {
				t.Fatalf("%s: an application that goes on fails: %v", use, err)
			}
		}
		uses(use)
		ended := make(chan error, 1)
		go func() { ended <- untilLocked(t.Context(), m) }()
		pid := application.Conn().PgConn().PID()
		if !pgtest.Await(pgtest.Patience, func() bool {
			return value[bool](t, db.Pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY "+
				"(pg_blocking_pids(pid)))", pid)
		}) {
			t.Fatalf("nobody waits for %s", use)
		}
		for _, other := range tables {
			uses("LOCK TABLE " + other + " IN ROW EXCLUSIVE MODE")
		}
		if err := application.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		up(t, m)
	}
}

// Those who wait behind the removal while it waits look for a deadlock when it gets what it has waited for. It does not
// wait for anything then.
func TestWhoWaitsBehindTheRemovalOfALogIsNotCancelled(t *testing.T) {
	t.Parallel()
	db, m := withLog(t)
	const lock = "LOCK TABLE %s IN ROW EXCLUSIVE MODE"
	begin := func(table string) (tx pgx.Tx, pid uint32) {
		t.Helper()
		tx, err := db.Pool.Begin(t.Context())
		if err == nil {
			t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
			_, err = tx.Exec(t.Context(), fmt.Sprintf(lock, table))
		}
		if err != nil {
			t.Fatal(err)
		}
		return tx, tx.Conn().PgConn().PID()
	}
	await := func(what, query string, args ...any) {
		t.Helper()
		if !pgtest.Await(pgtest.Patience, func() bool { return value[bool](t, db.Pool, query, args...) }) {
			t.Fatalf("never: %s", what)
		}
	}
	long, holder := begin("outbox_log_dedup")
	ended, applied := make(chan error, 1), make(chan error, 1)
	go func() { ended <- untilLocked(t.Context(), m) }()
	await("the removal waits, and has nothing", `SELECT EXISTS (SELECT FROM pg_locks AS w
		WHERE w.relation = to_regclass('outbox_log_dedup') AND NOT w.granted AND $1 = ANY (pg_blocking_pids(w.pid))
		  AND NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = w.pid AND l.granted
			AND l.mode = 'AccessExclusiveLock'))`, holder)
	application, waits := begin("outbox_log_parked")
	go func() {
		_, err := application.Exec(t.Context(), fmt.Sprintf(lock, "outbox_log_dedup"))
		applied <- err
	}()
	await("the application is about to look for a deadlock", `SELECT EXISTS (SELECT FROM pg_locks AS l
		WHERE l.pid = $1 AND NOT l.granted AND l.waitstart < clock_timestamp() -
			0.7 * current_setting('deadlock_timeout')::interval)`, waits)
	if err := long.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Errorf("an application that waits behind the removal: %v", err)
	}
	if err := application.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// untilLocked takes a log back as soon as it gets its locks.
func untilLocked(ctx context.Context, m *migrations.Migrator) error {
	for {
		_, err := m.DownTo(ctx, 2)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" {
			return err
		}
	}
}

// A log that has moved back is taken back, too, with the triggers that it has left on the table of rows.
func TestALogThatHasMovedBackIsTakenBack(t *testing.T) {
	t.Parallel()
	db, m := withLog(t)
	for _, sql := range []string{"SELECT outbox_log_take_over('main')", "SELECT outbox_log_move_rows('main')",
		"SELECT outbox_log_give_back()"} {
		exec(t, db.Pool, sql)
	}
	application, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer application.Rollback(context.WithoutCancel(t.Context()))
	if _, err := application.Exec(t.Context(), "SELECT outbox_enqueue('t', '')"); err != nil {
		t.Fatal(err)
	}
	impatient, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
		Domains: []migrations.Domain{migrations.Log}, LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = impatient.DownTo(t.Context(), 2)
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("beside a transaction that has written a row: %v", err)
	}
	if _, err := application.Exec(t.Context(), "SELECT outbox_enqueue('t', '')"); err != nil {
		t.Error(err)
	}
	if err := application.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.DownTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "SELECT outbox_enqueue('t', '', dedup_key => 'd')")
	for _, domain := range []migrations.Domain{migrations.Outbox, migrations.Log} {
		of := newMigratorOf(t, db.Pool, db.Schema, domain)
		if domain == migrations.Log {
			up(t, of)
		}
		if found, err := of.Differences(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", domain, found, err)
		}
	}
}
