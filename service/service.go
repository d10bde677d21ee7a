package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A Part is something that runs in a service: an outbox.Relay, an inbox.Worker, a timers.Worker, a jobs.Worker, an
// alarms.Dispatcher, a periodic.Scheduler, or a [workqueue.Worker] on a table of your own. If it has a method Check()
// error, the service asks it before it starts: a worker answers that no handler is registered.
type Part interface {
	// Run runs the part until ctx is cancelled. It is called once.
	Run(ctx context.Context) error
	// Workers are those of which the part consists. They share the service's runtime.
	Workers() []*workqueue.Worker
	// Tables are those that are to be maintained for it.
	Tables() []*workqueue.Table
}

// A checked part can tell before it runs, and without a database, why it cannot: no handler was registered.
type checked interface{ Check() error }

// Options configure a [Service]. The zero value is usable.
type Options struct {
	workqueue.RuntimeOptions

	// Reaper configures the maintenance. Default of its Schema: that of the first part's tables.
	Reaper reaper.Options

	// Tables are maintained beside those of the parts: tables that this or other processes use without a part, such as
	// those of an inbox whose keys are taken with inbox.Process or inboxhttp.Process only (Inbox.Tables).
	Tables []*workqueue.Table

	// MaintainedElsewhere leaves the maintenance to others: a cron job that runs `txwork reap`, or pg_cron.
	MaintainedElsewhere bool

	// Logger is told what runs here, once, and is the Reaper's where that has none. Default: slog.Default.
	Logger *slog.Logger
}

// A Service is the parts of a process on one database. It runs once. Its methods are safe for concurrent use.
type Service struct {
	pool    *pgxpool.Pool
	options Options
	runtime *workqueue.Runtime

	mu      sync.Mutex
	phase   phase
	members []*member          // in the order in which they came
	tables  []*workqueue.Table // of all parts that there have been, and of the Options
	retable func()             // has the reaper learn of new tables; nil: it does not run
	running context.Context    // of the parts, while they run
	stop    context.CancelFunc // ends it
	parts   sync.WaitGroup
}

// A phase is how far a service has come.
type phase int

const (
	phaseNew phase = iota
	phaseStarting
	phaseRunning
	phaseStopping
	phaseEnded
)

// New makes a service of parts that are not started; Run starts it. The pool is the application's; the error names the
// part that cannot be run. A service without parts maintains the Tables of its Options.
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
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{pool: pool, options: o, runtime: runtime}
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

// Runtime is what the parts share, for a worker that is run by itself beside them.
func (s *Service) Runtime() *workqueue.Runtime { return s.runtime }

// Run runs the parts until ctx is cancelled, or one of them ends without having been removed, and returns when all have
// stopped. When ctx is cancelled and every handler stops in time, the result is nil, never the context's error: a
// program may exit with 0 then. Otherwise the error joins those of the parts. A database that is away is waited for;
// what cannot work is an error at once: a table that does not fit this version of the library
// ([workqueue.ErrSchemaVersion]), a right that the role lacks ([ErrRights]), or a part without a handler.
func (s *Service) Run(ctx context.Context) error {
	tables, err := s.begin()
	if err != nil {
		return err
	}
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

// checkHandlers refuses parts that cannot run, before anything has started. Handlers may be registered until then.
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

// begin tells which tables the service starts with.
func (s *Service) begin() ([]*workqueue.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseNew {
		return nil, errors.New("txwork: the service has been started already: make a new one")
	}
	s.phase = phaseStarting
	return slices.Clone(s.tables), nil
}

func (s *Service) enterPhase(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = p
}

// runParts runs the parts that there are and those that are added, until ctx is cancelled or one of them ends.
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
	<-ctx.Done()
	s.enterPhase(phaseStopping) // nothing is started any more
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

// maintain runs the reaper until stop, which waits for it.
func (s *Service) maintain(ctx context.Context) (stop func() error) {
	if s.options.MaintainedElsewhere {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.reap(ctx) }()
	return func() error { cancel(); return <-done }
}

// reap runs the reaper over the tables of all parts, and begins anew when there are more.
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

// maintained are the tables, and a context that ends when there are more.
func (s *Service) maintained(ctx context.Context) (context.Context, []*workqueue.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, s.retable = context.WithCancel(ctx)
	return ctx, slices.Clone(s.tables)
}

// report says what runs here.
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
}
