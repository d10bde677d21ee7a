package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/flow"
)

// DefaultConnections is how many connections a [Runtime] works over: claims, settles and upkeep of many queues take
// turns at three, and one is kept for renewals.
const DefaultConnections = 4

const (
	minConnections, maxConnections = 2, 1000
	// systemIdleTime is how long an unused connection of a runtime stays open.
	systemIdleTime = 30 * time.Second
	// systemPingAfter is how long a connection must have been idle to be pinged before its next use. The pool's own
	// default of a second would ping before each look of an idle process.
	systemPingAfter = 5 * time.Second
	// minResetPause is the shortest time between two resets of the pool.
	minResetPause = 5 * time.Second
)

// RuntimeOptions configure a [Runtime]. The zero value is usable.
type RuntimeOptions struct {
	// Connections is how many connections claims, renewals, settles and upkeep of all workers share. Default:
	// [DefaultConnections]; at least 2. While statements are slow, up to Connections - 1 spare ones are opened
	// beside them. Listening takes one more, and so does each table for as long as the runtime notifies on behalf of
	// its producers, see [Runtime.MaxConnections].
	Connections int
	// ListenConfig connects the listener past a pooler. Default: the pool's own configuration.
	ListenConfig *pgx.ConnConfig
	// BeforeListen is called with a copy of ListenConfig before the listener connects, for example to set fresh
	// credentials, as the BeforeConnect of a pool is. Default: [RereadPassword].
	BeforeListen func(ctx context.Context, config *pgx.ConnConfig) error
}

// RereadPassword returns a function for the BeforeConnect of a pool: each new connection gets the password that its
// connection string leads to then, so that one that was replaced in a password file (passfile, PGPASSFILE, ~/.pgpass)
// or a service file needs no restart. It is nil if the program has set another password than the string leads to.
//
// The connections of a [Runtime] do this by themselves if the pool has no BeforeConnect.
func RereadPassword(config *pgx.ConnConfig) func(context.Context, *pgx.ConnConfig) error {
	return postgres.RereadPassword(config)
}

// A Runtime is what the workers of a process share on one database: a small pool of connections for their claims,
// renewals and settles, one connection that listens for all of them, and, once for each table, its sweeps and folds.
// What a process costs then depends on what it does, not on how many queues it could serve.
//
// Give it to workers, relays and schedulers as WorkerOptions.Runtime. A worker without one has a runtime of its own. It
// opens its connections when the first of its workers starts and closes them when the last has stopped. It is safe for
// concurrent use; a process may have any number of them, one for each database.
type Runtime struct {
	pool    *pgxpool.Pool
	options RuntimeOptions

	mu       sync.Mutex
	workers  int
	open     *system
	listened map[string]bool // tables that its workers listen for

	outages outage.Log
	others  fault.Outage // of work beside the workers
}

// A system is what a runtime has while it is open.
type system struct {
	runtime  *Runtime
	pool     *pgxpool.Pool
	slots    *conn.Slots
	listener *listener
	looks    *looks
	epoch    time.Time // workers look when multiples of their interval have passed since then
	clock    dbClock

	isolation flow.Isolation[*delivery]

	mu     sync.Mutex
	tables map[string]*tableWork
	reset  time.Time // when the pool was last reset
}

// NewRuntime makes a runtime. Its connections are opened with the pool's configuration, and are not the pool's:
// handlers that hold all of those cannot keep a lease from being renewed.
func NewRuntime(pool *pgxpool.Pool, o RuntimeOptions) (*Runtime, error) {
	if pool == nil {
		return nil, invalid("pool", "is nil")
	}
	o.Connections = cmp.Or(o.Connections, DefaultConnections)
	if o.Connections < minConnections || o.Connections > maxConnections {
		return nil, invalid("connections", "is %d, it must be between %d and %d", o.Connections, minConnections,
			maxConnections)
	}
	r := &Runtime{pool: pool, options: o, listened: make(map[string]bool)}
	r.others.LogTo(&r.outages)
	return r, nil
}

// MaxConnections is how many connections the runtime may have at once: its Connections and their spare ones, the
// listener's, and for each table of the workers that it was given one that notifies on behalf of the table's producers.
// Only one process at a time has the latter, and only while the rate is high.
func (r *Runtime) MaxConnections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.options.Connections + r.spare() + 1 + len(r.listened)
}

// expect counts the table for whose producers the runtime may notify on a connection of its own, see MaxConnections.
func (r *Runtime) expect(w *Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.options.NoListen {
		r.listened[w.table.Name()] = true
	}
}

// AcquireFunc calls f with one of the runtime's connections, as a pool's AcquireFunc does, for short work beside that
// of the workers: a transaction of maintenance, for example. It waits its turn as a claim does. While no worker runs,
// the connection is opened for this call. f must not keep it, nor change the settings of its session: the planner is
// set for the statements of the core.
func (r *Runtime) AcquireFunc(ctx context.Context, f func(*pgxpool.Conn) error) error {
	s, err := r.join(ctx)
	if err != nil {
		return err
	}
	defer r.leave()
	slot, err := conn.Taker{Slots: s.slots}.Take(ctx)
	if err != nil {
		return err
	}
	defer slot.Release()
	return s.pool.AcquireFunc(ctx, f)
}

// NoteOutage records how a statement of other work beside the runtime's workers ended, such as one under
// [Runtime.AcquireFunc]: nil, or an error. Outages of the database are logged once for all work of the runtime, when
// they begin and when they end. NoteOutage reports whether err is one.
func (r *Runtime) NoteOutage(logger *slog.Logger, err error) bool { return r.others.Note(logger, err) }

func (r *Runtime) spare() int { return r.options.Connections - 1 }

// WithRuntime is the options for several workers that belong together: they share the runtime that the options name or
// a new one on the pool.
func (o WorkerOptions) WithRuntime(pool *pgxpool.Pool) (_ WorkerOptions, err error) {
	if o.Runtime == nil {
		o.Runtime, err = NewRuntime(pool, RuntimeOptions{ListenConfig: o.ListenConfig})
	}
	return o, err
}

// checkPool refuses a worker whose handlers use another database than its claims.
func (r *Runtime) checkPool(pool *pgxpool.Pool) error {
	if r == nil {
		return nil
	}
	own, other := r.pool.Config().ConnConfig.Database, pool.Config().ConnConfig.Database
	if own != other {
		return invalid("runtime", "is of the database %q, the worker's pool of %q: a runtime serves one database", own,
			other)
	}
	return nil
}

// join opens the runtime for its first worker. Every join must be followed by a leave.
func (r *Runtime) join(ctx context.Context) (*system, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		s, err := r.newSystem(ctx)
		if err != nil {
			return nil, err
		}
		r.open = s
	}
	r.workers++
	return r.open, nil
}

// leave closes the runtime after its last worker.
func (r *Runtime) leave() {
	r.mu.Lock()
	r.workers--
	last := r.open
	if r.workers > 0 {
		last = nil
	} else {
		r.open = nil
	}
	r.mu.Unlock()
	if last != nil {
		last.looks.close()
		last.pool.Close()
		r.others.End()
		r.outages.Flush()
	}
}

func (r *Runtime) newSystem(ctx context.Context) (*system, error) {
	config := r.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(r.options.Connections+r.spare()), 0, 0
	config.MaxConnIdleTime = min(config.MaxConnIdleTime, systemIdleTime)
	config.HealthCheckPeriod = min(config.HealthCheckPeriod, systemIdleTime)
	if config.ShouldPing == nil {
		config.ShouldPing = func(_ context.Context,
			p pgxpool.ShouldPingParams) bool {
			return p.IdleDuration > systemPingAfter
		}
	}
	if config.BeforeConnect == nil {
		config.BeforeConnect = postgres.RereadPassword(config.ConnConfig)
	}
	conn.KeepSettings(config)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("txwork: opening the runtime's connections: %w", err)
	}
	s := &system{
		runtime: r, pool: pool, tables: make(map[string]*tableWork),
		slots: conn.NewSlots(r.options.Connections, r.spare()), epoch: time.Now(),
	}
	s.looks = newLooks(s)
	s.listener = newListener(s.connectListener)
	return s, nil
}

// queue is a table's operations over the runtime's connections.
func (s *system) queue(t *Table, l TxLimits) *Queue {
	return &Queue{table: t, exec: poolExecutor{conn.Pool{Conns: s.pool, Limits: conn.Limits(l), Slots: s.taker(t)}}}
}

// renewing is queue for renewals, which take precedence over everything else.
func (s *system) renewing(t *Table) *Queue {
	first := s.taker(t)
	first.Renews = true
	return &Queue{table: t, exec: poolExecutor{conn.Pool{Conns: s.pool, Slots: first}}}
}

func (s *system) taker(t *Table) conn.Taker { return conn.Taker{Slots: s.slots, Table: t.Name()} }

// timedOut is called for a statement that took all of its time. If one connection has vanished silently, the others may
// have, too, so all of them are replaced. minResetPause keeps a locked table from having them replaced again and again.
func (s *system) timedOut(err error) {
	if errors.Is(err, conn.ErrNoSlot) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.reset) >= minResetPause {
		s.reset = time.Now()
		s.pool.Reset()
	}
}

// connectListener opens a connection of the listener's own, the way the pool would. The listener does not borrow one,
// because a pool may take its connections back, and a transaction pooler would not deliver notifications to them.
func (s *system) connectListener(ctx context.Context) (*pgx.Conn, error) {
	o := s.runtime.options
	if o.ListenConfig == nil {
		return conn.OpenAs(ctx, s.runtime.pool)
	}
	return conn.Open(ctx, o.ListenConfig.Copy(), o.BeforeListen)
}

// onRuntime is the place of a worker. Only its handlers' transactions are on the application's pool.
type onRuntime struct {
	*system
	handlers *pgxpool.Pool
}

func (p onRuntime) settle(ctx context.Context, t *Table, batch []*settlement, l TxLimits, try trial) (*changes,
	error) {
	return p.queue(t, l).settle(ctx, batch, try)
}

func (p onRuntime) begin(ctx context.Context, d *delivery) (begunTx, error) {
	return beginOn(ctx, p.handlers, d)
}

func (p onRuntime) commits() bool { return true }
