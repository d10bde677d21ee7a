package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A Part is something that runs in a service: an outbox.Relay, an inbox.Worker, a timers.Worker, a jobs.Worker, an
// alarms.Dispatcher, a periodic.Scheduler, or a [workqueue.Worker] on a table of your own.
type Part interface {
	// Run runs the part until ctx is cancelled. It is called once.
	Run(ctx context.Context) error
	// Workers are those of which the part consists. They share the service's runtime.
	Workers() []*workqueue.Worker
	// Tables are those that are to be maintained for it.
	Tables() []*workqueue.Table
}

// Options configure a [Service]. The zero value is usable.
type Options struct {
	workqueue.RuntimeOptions

	// Reaper configures the maintenance. Default of its Schema: that of the first part's tables.
	Reaper reaper.Options

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
	parts   []Part
	tables  []*workqueue.Table

	started atomic.Bool
	ended   atomic.Bool
}

// New makes a service of parts that are not started; Run starts it. The pool is the application's; the error names the part
// that cannot be run.
func New(pool *pgxpool.Pool, o Options, parts ...Part) (*Service, error) {
	if len(parts) == 0 {
		return nil, workqueue.Invalid("parts", "are none")
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
	s := &Service{pool: pool, options: o, runtime: runtime, parts: parts, tables: tablesOf(parts)}
	if len(s.tables) > 0 {
		s.options.Reaper.Schema = cmp.Or(o.Reaper.Schema, s.tables[0].Spec().Schema)
	}
	s.options.Reaper.Logger = cmp.Or(o.Reaper.Logger, o.Logger)
	if err := s.options.Reaper.Validate(); err != nil {
		return nil, err
	}
	for _, w := range s.workers() {
		if err := w.Join(runtime); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Runtime is what the parts share, for a worker that is run by itself beside them.
func (s *Service) Runtime() *workqueue.Runtime { return s.runtime }

func (s *Service) workers() (all []*workqueue.Worker) {
	for _, p := range s.parts {
		all = append(all, p.Workers()...)
	}
	return all
}

// tablesOf are the parts' tables, each once.
func tablesOf(parts []Part) (tables []*workqueue.Table) {
	for _, p := range parts {
		for _, t := range p.Tables() {
			if !slices.ContainsFunc(tables, func(o *workqueue.Table) bool { return o.Name() == t.Name() }) {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// Run runs the parts until ctx is cancelled, or one of them ends, and returns when all have stopped. The error joins
// theirs. A database that is away is waited for; what cannot work is an error at once: a table that does not fit this version of
// the library ([workqueue.ErrSchemaVersion]), or a right that the role lacks ([ErrRights]).
func (s *Service) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("txwork: the service has been started already: make a new one")
	}
	defer s.ended.Store(true)
	if err := s.awaitDatabase(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	s.report(ctx)
	stopReaper := s.maintain(ctx)
	err := s.runParts(ctx)
	return errors.Join(err, stopReaper())
}

// runParts waits for all parts. When one ends, the others are stopped.
func (s *Service) runParts(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(s.parts))
	var running sync.WaitGroup
	for i, p := range s.parts {
		running.Go(func() {
			defer stop()
			errs[i] = p.Run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// maintain runs the reaper until stop, which waits for it.
func (s *Service) maintain(ctx context.Context) (stop func() error) {
	if s.options.MaintainedElsewhere || len(s.tables) == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- reaper.Run(ctx, s.pool, s.tables, s.options.Reaper) }()
	return func() error { cancel(); return <-done }
}

// report says what runs here.
func (s *Service) report(ctx context.Context) {
	var serves []string
	for _, w := range s.workers() {
		serves = append(serves, describe(w))
	}
	maintenance := "here"
	if s.options.MaintainedElsewhere {
		maintenance = "elsewhere"
	}
	s.options.Logger.LogAttrs(ctx, slog.LevelInfo, "service starts", slog.Any("serves", serves), slog.String("maintenance", maintenance),
		slog.Int("connections", s.runtime.MaxConnections()), slog.Int("pool", int(s.pool.Config().MaxConns)))
}
