package security_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// newRunning returns a schema with all domains, and without roles.
func newRunning(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{t: t, db: pgtest.New(t)}
	text, err := migrations.SQL(migrations.FileOptions{Schema: f.db.Schema, Domains: migrations.Domains()})
	must(t, err)
	f.db.Define(t, text)
	return f
}

// newRoles returns a call that runs the SQL of the roles with a new prefix, as psql does.
func (f *fixture) newRoles() func(ctx context.Context) error {
	f.t.Helper()
	f.prefix = "r_" + strings.ToLower(rand.Text())
	of := *f
	f.t.Cleanup(of.dropRoles)
	text, err := migrations.Roles(migrations.RoleOptions{Schema: f.db.Schema, Prefix: f.prefix,
		Domains: migrations.Domains()})
	must(f.t, err)
	return func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, f.db.URL)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		_, err = conn.Exec(ctx, text)
		return err
	}
}

// repeated runs the SQL of the roles until no timeout for a lock ends it.
func (f *fixture) repeated(ctx context.Context, run func(context.Context) error) error {
	for {
		err := run(ctx)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" {
			return err
		}
		f.t.Log(err)
	}
}

// A transaction that has used a table, and then uses all others, meets the SQL of the roles while that waits for the
// table.
func TestTheRolesOfARunningSystemHoldNothingWhileTheyWait(t *testing.T) {
	f := newRunning(t)
	for _, table := range []string{"outbox", "outbox_key_seq", "outbox_log_3", "jobs", "leader", "schema_domain"} {
		application, err := f.db.Pool.Begin(t.Context())
		must(t, err)
		f.uses(application, table)
		run, ended := f.newRoles(), make(chan error, 1)
		go func() { ended <- f.repeated(t.Context(), run) }()
		if !pgtest.Await(5*time.Minute, func() bool {
			return ask[bool](f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))",
				application.Conn().PgConn().PID())
		}) {
			t.Fatalf("nobody waits for %s", table)
		}
		for _, other := range f.tables() {
			f.uses(application, other)
		}
		must(t, application.Commit(t.Context()))
		must(t, <-ended)
	}
}

// uses writes nothing, and locks as a statement that writes.
func (f *fixture) uses(tx pgx.Tx, table string) {
	f.t.Helper()
	statement := "LOCK TABLE " + table + " IN ROW EXCLUSIVE MODE"
	if strings.HasSuffix(table, "_seq") {
		statement = "SELECT nextval('" + table + "')"
	}
	if _, err := tx.Exec(f.t.Context(), statement); err != nil {
		f.t.Fatalf("an application fails at %s: %v", table, err)
	}
}

// A table that is in use for too long ends the SQL of the roles with an error that names it, and the next run goes on.
func TestTheSQLOfTheRolesNamesTheTableThatIsInUse(t *testing.T) {
	f := newRunning(t)
	run := f.newRoles()
	for _, attempt := range []struct{ lock, want, owned string }{
		{"jobs IN ROW EXCLUSIVE MODE", `"jobs" was in use for more than 3s`, "outbox"}, // changes its owner
		{"leader IN ACCESS EXCLUSIVE MODE", `"leader" was in use for more than 3s`, "jobs"},
	} {
		f.holding(attempt.lock, func() { f.isInUse(attempt.want, run(t.Context())) })
		if !ask[bool](f, "SELECT pg_get_userbyid(relowner) = $1 FROM pg_class WHERE oid = $2::regclass",
			f.role("owner"), attempt.owned) {
			t.Errorf("what has been done did not stay: %s has another owner", attempt.owned)
		}
	}
	must(t, run(t.Context()))
	f.holding("leader IN ACCESS EXCLUSIVE MODE", func() { // as TRUNCATE, while it has its owner and gets its rights
		f.isInUse(`.leader"`, run(t.Context()))
	})
	must(t, run(t.Context()))
}

// holding does something while a transaction has a lock.
func (f *fixture) holding(lock string, do func()) {
	f.t.Helper()
	tx, err := f.db.Pool.Begin(f.t.Context())
	must(f.t, err)
	defer tx.Rollback(f.t.Context())
	_, err = tx.Exec(f.t.Context(), "LOCK TABLE "+lock)
	must(f.t, err)
	do()
}

func (f *fixture) isInUse(want string, err error) {
	f.t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "55P03" || !strings.Contains(pg.Message, want) ||
		!strings.HasPrefix(pg.Hint, "Run this SQL again when that has ended") {
		f.t.Errorf("%v, want %s", err, want)
	}
}

// Roles are applied by several at once, for the same schema and for two, and beside migrations: each of them ends, or
// says that it is to be run again.
func TestRolesAreAppliedByManyAtOnce(t *testing.T) {
	f := newRunning(t)
	other := pgtest.New(t)
	prefix := "r_" + strings.ToLower(rand.Text())
	f.prefix = prefix
	t.Cleanup(func() {
		also := &fixture{t: t, db: other, prefix: prefix}
		for _, name := range []string{"operator", "viewer", "worker", "producer", "migrator", "owner"} {
			_, _ = other.Pool.Exec(context.Background(), "DROP OWNED BY "+also.role(name)+" CASCADE")
		}
		f.dropRoles()
	})
	text, err := migrations.SQL(migrations.FileOptions{Schema: other.Schema, Domains: migrations.Domains()})
	must(t, err)
	other.Define(t, text)
	texts := make([]string, 2)
	for i, db := range []*pgtest.DB{f.db, other} {
		texts[i], err = migrations.Roles(migrations.RoleOptions{Schema: db.Schema, Prefix: prefix,
			Domains: migrations.Domains()})
		must(t, err)
	}
	ended := make(chan error)
	const n = 6
	for i := range n {
		go func() {
			ended <- f.repeated(t.Context(), func(ctx context.Context) error {
				conn, err := pgx.Connect(ctx, f.db.URL)
				if err != nil {
					return err
				}
				defer conn.Close(context.WithoutCancel(ctx))
				_, err = conn.Exec(ctx, texts[i%2])
				return err
			})
		}()
	}
	go func() {
		m, err := migrations.New(f.db.Pool, migrations.Options{Schema: f.db.Schema, Logger: quiet.Logger})
		if err == nil {
			_, err = m.Up(t.Context())
		}
		ended <- err
	}()
	for range n + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, table := range []string{"outbox", "outbox_log"} {
		if !ask[bool](f, "SELECT has_table_privilege($1, $2, 'SELECT')", f.role("viewer"), table) {
			t.Errorf("the viewer may not read %s", table)
		}
	}
}

// A system is an application with its own roles: it writes rows, a log and jobs in one transaction, and serves them.
type system struct {
	*fixture
	log      *outbox.Outbox
	logger   *slog.Logger
	written  atomic.Int64    // by transactions
	done     [3]atomic.Int64 // by the relays of rows and of the log, and by the worker
	mu       sync.Mutex
	refusals bytes.Buffer
}

// Write is for the system's logger. Statements that bound their waits for locks may give up, and are repeated.
func (s *system) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Contains(line, []byte("SQLSTATE")) && !bytes.Contains(line, []byte("SQLSTATE 55P03")) {
		s.refusals.Write(line)
	}
	return len(line), nil
}

// New roles take over the tables of a running system again and again, and none of its sessions notices: neither those
// of the former owner's functions, nor those of roles with an earlier prefix.
func TestARunningSystemGetsRoles(t *testing.T) {
	s := &system{fixture: newRunning(t)}
	must(t, s.newRoles()(t.Context()))
	s.open()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	parts := s.parts()
	for _, run := range parts {
		go func() { ended <- run(ctx) }()
	}
	for range pgtest.Size(3, 12) {
		s.goesOn()
		if err := s.repeated(t.Context(), s.newRoles()); err != nil {
			t.Errorf("the SQL of the roles: %v", err)
		}
	}
	s.goesOn()
	stop()
	for range parts {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if s.refusals.Len() > 0 {
		t.Errorf("statements of the system failed:\n%s", s.refusals.String())
	}
}

func (s *system) open() {
	s.t.Helper()
	s.logger = slog.New(slog.NewTextHandler(s, nil))
	telemetry := workqueue.Telemetry{Logger: s.logger}
	s.kinds = jobs.NewRegistry()
	jobs.Register(s.kinds, func(context.Context, *jobs.Job[printArgs]) error { s.done[2].Add(1); return nil },
		jobs.KindOptions[printArgs]{})
	var errs [3]error
	s.outbox, errs[0] = outbox.Open(outbox.Options{Schema: s.db.Schema, Ordering: outbox.PerKey, Telemetry: telemetry})
	s.log, errs[1] = outbox.Open(outbox.Options{Schema: s.db.Schema, Storage: outbox.Log, Telemetry: telemetry})
	s.jobs, errs[2] = jobs.Open(jobs.Options{Schema: s.db.Schema, Registry: s.kinds, Telemetry: telemetry})
	must(s.t, errors.Join(errs[:]...))
	for _, statement := range []string{"CALL outbox_log_tick()", "SELECT outbox_log_subscribe('all')"} {
		_, err := s.db.Pool.Exec(s.t.Context(), statement)
		must(s.t, err)
	}
}

// parts are producers, who write in different orders, and two processes.
func (s *system) parts() (parts []func(context.Context) error) {
	s.t.Helper()
	producer := s.as("producer")
	for first := range 4 {
		parts = append(parts, func(ctx context.Context) error { return s.produces(ctx, producer, first) })
	}
	for range 2 {
		parts = append(parts, s.process(s.as("worker")).Run)
	}
	return parts
}

func (s *system) process(pool *pgxpool.Pool) *service.Service {
	s.t.Helper()
	options := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
	rows, err := outbox.NewRelay(pool, s.outbox, outbox.RelayOptions{WorkerOptions: options})
	must(s.t, err)
	log, err := outbox.NewRelay(pool, s.log, outbox.RelayOptions{WorkerOptions: options, Subscription: "all"})
	must(s.t, err)
	for i, relay := range []*outbox.Relay{rows, log} {
		relay.HandleAll(func(context.Context, *outbox.Delivery) error { s.done[i].Add(1); return nil })
	}
	worker, err := jobs.NewWorker(pool, s.jobs, jobs.WorkerOptions{Registry: s.kinds, WorkerOptions: options})
	must(s.t, err)
	process, err := service.New(pool, service.Options{Logger: s.logger}, rows, log, worker)
	must(s.t, err)
	return process
}

// produces writes to all tables in transactions, one after the other, and begins with another table than its neighbour.
func (s *system) produces(ctx context.Context, pool *pgxpool.Pool, first int) error {
	message := outbox.Message{Topic: "sent", Key: "k"}
	writes := []func(tx workqueue.Tx) error{
		func(tx workqueue.Tx) error { _, err := s.outbox.Enqueue(ctx, tx, message); return err },
		func(tx workqueue.Tx) error { _, err := s.log.Enqueue(ctx, tx, message); return err },
		func(tx workqueue.Tx) error {
			_, err := s.jobs.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{1}})
			return err
		},
	}
	for ctx.Err() == nil {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for i := range writes {
				if err := writes[(first+i)%len(writes)](workqueue.Pgx(tx)); err != nil {
					return err
				}
				pgtest.Pass(5 * time.Millisecond)
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		s.written.Add(1)
	}
	return nil
}

// goesOn waits until each part has done something.
func (s *system) goesOn() {
	s.t.Helper()
	for _, n := range []*atomic.Int64{&s.written, &s.done[0], &s.done[1], &s.done[2]} {
		before := n.Load()
		if !pgtest.Await(pgtest.Patience, func() bool { return n.Load() >= before+10 }) {
			s.t.Fatalf("the system stands still:\n%s", s.refusals.String())
		}
	}
}
