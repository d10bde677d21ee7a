package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Part is something that runs in a service: an outbox.Relay, an inbox.Worker, a timers.Worker, a jobs.Worker, an
// alarms.Dispatcher, a periodic.Scheduler, or a [workqueue.Worker] on a table of your own. If it has a method Check()
// error, the service calls it before it starts anything. A worker without a handler returns an error then.
type Part interface {
	// Run runs the part until ctx is cancelled. It is called once.
	Run(ctx context.Context) error
	// Workers returns the workers of which the part consists. They share the service's runtime.
	Workers() []*workqueue.Worker
	// Tables returns the tables that have to be maintained for the part.
	Tables() []*workqueue.Table
}

// A checked part can detect, before it runs and without a database, that it cannot work: no handler was registered.
type checked interface{ Check() error }

// Options configure a [Service]. The zero value is usable.
type Options struct {
	workqueue.RuntimeOptions

	// Reaper configures the maintenance. The default of its Schema is the schema of the first part's tables.
	Reaper reaper.Options

	// Tables are maintained in addition to those of the parts. They are tables that this or other processes use without
	// a part, such as those of an inbox (Inbox.Tables) that is only used with inbox.Process or inboxhttp.Process.
	Tables []*workqueue.Table

	// MaintainedElsewhere turns the reaper off, because a cron job that runs `txwork reap`, or pg_cron, does the
	// maintenance.
	MaintainedElsewhere bool

	// HandlersWithoutPool says that no handler uses the pool, but for inbox handlers, which always have a transaction.
	// Then nothing is logged at the start if there are more handlers than connections, unless inbox handlers need them.
	HandlersWithoutPool bool

	// Logger receives a line that says what runs here. It is also the Reaper's logger if that has none. Default:
	// slog.Default.
	Logger *slog.Logger
}

// A Service runs the parts of a process on one database. It runs once. Its methods are safe for concurrent use.
type Service struct {
	pool    *pgxpool.Pool
	options Options
	runtime *workqueue.Runtime

	mu      sync.Mutex
	phase   phase
	members []*member          // in the order in which they were added
	tables  []*workqueue.Table // of the Options and of all parts, including removed ones
	retable func()             // restarts the reaper with the current tables; nil: it does not run
	running context.Context    // of the parts, while they run
	stop    context.CancelFunc // cancels running
	parts   sync.WaitGroup

	started chan struct{} // closed when its parts run, or it has ended without running them
	begins  sync.Once     // closes started
}

// A phase is a stage in the life of a service.
type phase int

const (
	phaseNew phase = iota
	phaseStarting
	phaseRunning
	phaseStopping
	phaseEnded
)

// New makes a service of parts that are not started; Run starts it. The pool is the application's. An error names the
// part that cannot run. A service without parts maintains the Tables of its Options.
func New(pool *pgxpool.Pool, o Options, parts ...Part) (*Service, error) {
	if len(parts) == 0 && len(o.Tables) == 0 {
		return nil, validate.Errorf("parts", "are none, and the Options have no Tables")
	}
	if i := slices.Index(o.Tables, nil); i >= 0 {
		return nil, validate.Errorf("tables", "has a nil at index %d", i)
	}
	if err := checkParts(parts); err != nil {
		return nil, err
	}
	runtime, err := workqueue.NewRuntime(pool, o.RuntimeOptions)
	if err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Service{pool: pool, options: o, runtime: runtime, started: make(chan struct{})}
	for _, p := range parts {
		if _, err := s.enter(p); err != nil {
			return nil, err
		}
	}
	s.learn(o.Tables)
	if len(s.tables) > 0 {
		s.options.Reaper.Schema = cmp.Or(o.Reaper.Schema, s.tables[0].Spec().Schema)
	}
	s.options.Reaper.Runtime = cmp.Or(o.Reaper.Runtime, runtime)
	s.options.Reaper.Logger = cmp.Or(o.Reaper.Logger, o.Logger)
	if err := s.options.Reaper.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// Runtime returns the runtime that the parts share, for a worker that you run yourself beside the service.
func (s *Service) Runtime() *workqueue.Runtime { return s.runtime }

// Run runs the parts until ctx is cancelled, or one of them ends without having been removed, and returns when all have
// stopped. If ctx was cancelled and every handler stopped in time, it returns nil and never the context's error, so a
// program may exit with 0. Otherwise the error joins those of the parts.
//
// While the database is unavailable, Run waits for it. It returns an error at once if the parts cannot work: a table
// does not fit this version of the library ([workqueue.ErrSchemaVersion]), the role lacks a right ([ErrRights]), or a
// part has no handler.
func (s *Service) Run(ctx context.Context) error {
	tables, err := s.begin()
	if err != nil {
		return err
	}
	defer s.hasStarted()
	defer s.enterPhase(phaseEnded)
	if err := s.checkHandlers(); err != nil {
		return err
	}
	if err := s.awaitDatabase(ctx, tables); err != nil || ctx.Err() != nil {
		return err
	}
	s.report(ctx)
	stopReaper := s.maintain(ctx)
	err = s.runParts(ctx)
	return errors.Join(err, stopReaper())
}

// checkHandlers refuses parts that cannot run, before anything is started. It is called by Run and not by New, so that
// handlers may be registered until then.
func (s *Service) checkHandlers() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, m := range s.members {
		if p, ok := m.part.(checked); ok {
			errs = append(errs, p.Check())
		}
	}
	return errors.Join(errs...)
}

// begin starts the service and returns the tables that it starts with.
func (s *Service) begin() ([]*workqueue.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseNew {
		return nil, errors.New("txwork: the service has been started already: make a new one")
	}
	s.phase = phaseStarting
	return slices.Clone(s.tables), nil
}

// hasStarted lets in the parts that were added meanwhile.
func (s *Service) hasStarted() { s.begins.Do(func() { close(s.started) }) }

func (s *Service) enterPhase(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = p
}

// runParts runs the parts, including those that are added later, until ctx is cancelled or one of them ends.
func (s *Service) runParts(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.phase, s.running, s.stop = phaseRunning, ctx, stop
	for _, m := range s.members {
		m.works = true
		s.start(m)
	}
	s.mu.Unlock()
	s.hasStarted()
	<-ctx.Done()
	s.enterPhase(phaseStopping) // from here on no part is started
	s.parts.Wait()
	return s.failures()
}

func (s *Service) failures() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.err)
	}
	return errors.Join(errs...)
}

// maintain starts the reaper. The function stop ends it, waits for it and returns its error.
func (s *Service) maintain(ctx context.Context) (stop func() error) {
	if s.options.MaintainedElsewhere {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.reap(ctx) }()
	return func() error { cancel(); return <-done }
}

// reap runs the reaper over the tables of all parts, and restarts it when there are more tables.
func (s *Service) reap(ctx context.Context) error {
	for ctx.Err() == nil {
		current, tables := s.maintained(ctx)
		if len(tables) == 0 {
			<-current.Done()
			continue
		}
		if err := reaper.Run(current, s.pool, tables, s.options.Reaper); err != nil {
			return err
		}
	}
	return nil
}

// maintained returns the tables, and a context that ends when there are more of them.
func (s *Service) maintained(ctx context.Context) (context.Context, []*workqueue.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, s.retable = context.WithCancel(ctx)
	return ctx, slices.Clone(s.tables)
}

// report logs what runs here.
func (s *Service) report(ctx context.Context) {
	serves := describe(s.workers(func(*member) bool { return true }))
	maintenance := "here"
	if s.options.MaintainedElsewhere {
		maintenance = "elsewhere"
	}
	s.options.Logger.LogAttrs(ctx, slog.LevelInfo, "service starts", slog.Any("serves", serves),
		slog.String("maintenance", maintenance),
		slog.Int("runtime_connections", s.runtime.MaxConnections()),
		slog.Int("pool_connections", int(s.pool.Config().MaxConns)))
	s.comparePool(ctx)
}
