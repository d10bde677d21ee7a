package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/flow"
)

// Defaults of [WorkerOptions].
const (
	// DefaultConcurrency suits handlers that wait on a network more than they compute.
	DefaultConcurrency = 20
	// DefaultClaimLimit is the first size of a claim; full claims let it grow, short ones shrink it.
	DefaultClaimLimit = 20
	// DefaultLease bounds how long a crash goes unnoticed. It is renewed at a third of it, so two
	// renewals may fail before it ends.
	DefaultLease = 30 * time.Second
	// DefaultSettleLinger is how long a settle waits for company when handlers are at work.
	DefaultSettleLinger = time.Millisecond
	// DefaultShutdownTimeout stays under the 30 s that orchestrators commonly grant.
	DefaultShutdownTimeout = 20 * time.Second
	// DefaultRunsWithin is far longer than most handlers take. Those that take longer should say so.
	DefaultRunsWithin = time.Hour
)

// RunsWithin is the default of [WorkerOptions].RunsWithin: twice a timeout, and at least a minute more than it;
// [DefaultRunsWithin] without one. A handler that has not returned by then ignores its context.
func RunsWithin(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return DefaultRunsWithin
	}
	return timeout + max(timeout, time.Minute)
}

// WorkerOptions configure a [Worker]. The zero value is usable.
type WorkerOptions struct {
	// Concurrency is how many handlers run at once, until [Worker.SetConcurrency] changes it. Default:
	// [DefaultConcurrency].
	Concurrency int
	// TopicConcurrency is how many handlers of one topic run at once, for tables with topics ([Spec].Topics), such as
	// outbox and inbox. Default 0: a topic begins with a quarter of the places that other topics leave, and the only
	// one with half of them. With each success for which another row of it waits it has one more, up to seven eighths
	// of all. So a topic whose handlers hang leaves places for the others.
	TopicConcurrency int
	// ClaimLimit is how many rows the first claim takes at most. The limit of those that follow adapts to the load,
	// between this and 1,000 rows, and no claim takes more than there is room for: it bounds a claim and not the rows
	// in flight, see Concurrency. Default: [DefaultClaimLimit].
	ClaimLimit int
	// Lease is how long a claim holds without renewal. Default: [DefaultLease]; at least [MinLease].
	Lease time.Duration
	// PollInterval is the longest time between two looks. Default: [dispatch.DefaultPollInterval].
	PollInterval time.Duration
	// ClaimCooldown is the least time between two claims while there is room for more rows than there are: a woken
	// worker waits for it, so that rows which come one by one share claims, settles and commits, and start up to this
	// much later. Default: none, a woken worker claims at once.
	ClaimCooldown time.Duration
	// SettleLinger is how long a settle may wait for others to share its transaction, negative for not
	// at all. Default: [DefaultSettleLinger].
	SettleLinger time.Duration
	// HandlerTimeout cancels the context of a handler that takes longer. Default: none, since the lease
	// is renewed for as long as the handler runs.
	HandlerTimeout time.Duration
	// RunsWithin is how long a handler may run before its row is reported as one that does not return: by `txwork
	// doctor`, `txwork top` and the gauges. Nothing is cancelled. [Claim.RunsWithin] overrides it for a row. Negative:
	// never. Default: that of [RunsWithin] for the HandlerTimeout.
	RunsWithin time.Duration
	// TxLimits bound the transactions of [Claim.Tx] at the server. Default: none.
	TxLimits TxLimits
	// ShutdownTimeout is how long Run waits for running handlers once its context is cancelled, before
	// it cancels theirs. Default: [DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// Redact rewrites errors before they are stored. Default: they are stored as they are.
	Redact Redactor
	// NoListen turns notifications off: the worker polls. For connections through a transaction pooler.
	NoListen bool
	// ListenConfig connects the listener past a pooler. Default: the pool's own configuration. With a Runtime, that of
	// [RuntimeOptions] holds.
	ListenConfig *pgx.ConnConfig
	// Runtime is shared with other workers of the process on the same database. Default: one of the worker's own.
	Runtime *Runtime
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.ClaimLimit = cmp.Or(o.ClaimLimit, DefaultClaimLimit)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.PollInterval = cmp.Or(o.PollInterval, dispatch.DefaultPollInterval)
	o.SettleLinger = cmp.Or(o.SettleLinger, DefaultSettleLinger)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, DefaultShutdownTimeout)
	o.RunsWithin = cmp.Or(o.RunsWithin, RunsWithin(o.HandlerTimeout))
	return o
}

func (o WorkerOptions) handling() handling {
	return handling{Lease: o.Lease, SettleLinger: o.SettleLinger, HandlerTimeout: o.HandlerTimeout,
		RunsWithin: o.RunsWithin, TxLimits: o.TxLimits, Redact: o.Redact}
}

// maxConcurrency bounds the goroutines of one worker.
const maxConcurrency = 100_000

func (o WorkerOptions) validate() error {
	switch {
	case o.ClaimLimit < 1 || o.ClaimLimit > MaxBatch:
		return invalid("claim limit", "is %d, it must be between 1 and %d", o.ClaimLimit, MaxBatch)
	case o.TopicConcurrency < 0:
		return invalid("topic concurrency", "is %d, it cannot be negative", o.TopicConcurrency)
	case o.PollInterval < 0:
		return invalid("poll interval", "is %v, it cannot be negative", o.PollInterval)
	case o.ClaimCooldown < 0:
		return invalid("claim cooldown", "is %v, it cannot be negative", o.ClaimCooldown)
	case o.HandlerTimeout < 0:
		return invalid("handler timeout", "is %v, it cannot be negative", o.HandlerTimeout)
	case o.ShutdownTimeout < 0:
		return invalid("shutdown timeout", "is %v, it cannot be negative", o.ShutdownTimeout)
	}
	return cmp.Or(checkConcurrency(o.Concurrency), o.TxLimits.validate(), checkLease(o.Lease))
}

func checkConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return invalid("concurrency", "is %d, it must be between 1 and %d", n, maxConcurrency)
	}
	return nil
}

// A Worker claims rows of one table, hands them to a handler, renews their leases and settles them.
// Any number of workers, in any number of processes, share a table.
type Worker struct {
	*engine
	options WorkerOptions
	pool    *pgxpool.Pool // the application's, for the handlers' transactions
	runtime *Runtime
	system  *system // the open runtime's, so that no handler can starve it
	work    *tableWork
	settler *settler

	claimedAt   time.Time    // when the poll last claimed; used only by the poll's goroutine
	cancelsSeen atomic.Int64 // how many notifications of cancels have come
	started     atomic.Bool
	phase       atomic.Int32
	begun       chan struct{}         // closed when the worker works, or will not
	begins      func()                // closes begun
	refused     atomic.Pointer[error] // by an External
	external    atomic.Pointer[hears] // of an External
}

// NewWorker makes a worker; Run starts it. The pool serves [Claim.Tx]; claims, renewals and settles have
// connections of the worker's [Runtime], so that handlers which hold all of the pool's cannot keep a lease from being
// renewed.
func NewWorker[T any](pool *pgxpool.Pool, domain Domain[T], handler Handler[T], o WorkerOptions) (*Worker, error) {
	switch {
	case pool == nil:
		return nil, invalid("pool", "is nil")
	case domain.Table == nil:
		return nil, invalid("domain", "has no table")
	case handler == nil:
		return nil, invalid("handler", "is nil")
	}
	o = o.withDefaults()
	err := cmp.Or(o.validate(), domain.Table.checkLanes(domain.Lanes), checkColumns(domain.Table, domain.Columns))
	if err != nil {
		return nil, err
	}
	o, err = o.WithRuntime(pool)
	if err = cmp.Or(err, o.Runtime.checkPool(pool)); err != nil {
		return nil, err
	}
	c := consumer{table: domain.Table, handling: o.handling(), lanes: domain.Lanes, each: 1}
	c.logger = c.loggerOf(c.table)
	c.target = func(columns *Columns) any {
		c := new(Claim[T])
		if domain.Columns != nil {
			domain.Columns(&c.Body, columns)
		}
		return c
	}
	c.handler = func(ctx context.Context, d *delivery) error { return handler(ctx, claimOf[T](d)) }
	if domain.Leaves != nil {
		c.leaves = func(ctx context.Context, d *delivery) error { return domain.Leaves(ctx, claimOf[T](d)) }
	}
	w := newWorker(c, pool, o)
	o.Runtime.expect(w)
	return w, nil
}

func newWorker(c consumer, pool *pgxpool.Pool, o WorkerOptions) *Worker {
	w := &Worker{engine: newEngine(c), options: o, pool: pool, runtime: o.Runtime, begun: make(chan struct{})}
	w.begins = sync.OnceFunc(func() { close(w.begun) })
	w.flow = flow.New(flow.Options{Concurrency: o.Concurrency, ClaimLimit: o.ClaimLimit,
		PerTopic: o.TopicConcurrency}, w.release)
	w.poll = dispatch.NewPoll(polled{w}, dispatch.PollOptions{Interval: o.PollInterval,
		OnError: func(err error) { logError(w.logger, err) }})
	return w
}

// Wake makes the worker look for rows now. It never blocks.
func (w *Worker) Wake() { w.poll.Wake() }

// Run works until ctx is cancelled. Then it claims no more, returns rows that were not started, waits
// for running handlers, settles them, and returns nil. Handlers that are still running when the shutdown
// timeout has passed find their context cancelled; if they do not return even then, Run reports them:
// their rows stay claimed until their lease ends.
//
// A database that goes away is waited for. Run returns an error at once only if the table does not fit
// this version of the library, if a pooler refuses transactions or has lost a prepared statement by then
// ([ErrPoolMode]), or if the role or the pool's settings make a session in which SQL does not mean what it says
// ([ErrSession]). A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("txwork: the worker has been started already: make a new one")
	}
	w.phase.Store(phaseStarting)
	defer w.begins()
	defer w.phase.Store(phaseStopping)
	if err := w.open(ctx); err != nil {
		return err
	}
	defer w.runtime.leave()
	defer w.work.leave(w)
	defer w.system.isolation.Leave(w.flow)
	defer w.table.telemetry.Begin(w.load)()
	if err := w.awaitTable(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return w.serve(ctx)
}

func (w *Worker) open(ctx context.Context) (err error) {
	if w.system, err = w.runtime.join(ctx); err != nil {
		return err
	}
	w.work = w.system.joinTable(w)
	w.counts = &w.work.counts
	w.outage, w.dbClock = &w.work.outage, &w.system.clock
	if w.work.folder != nil {
		w.notes = &w.work.folder.notesDue
	}
	w.workAt(onRuntime{w.system, w.pool})
	w.settler = newSettler(w.engine)
	w.work.serve(w)
	w.system.isolation.Join(w.flow, &w.inFlight)
	return nil
}

// awaitTable checks the table's version and the session, and that no pooler refuses transactions. It waits for a
// database that answers, however long that takes.
func (w *Worker) awaitTable(ctx context.Context) error {
	pause := outage.MinPause
	for {
		err := w.within(ctx, w.callTimeout(), func(ctx context.Context) error {
			slot, err := w.system.taker(w.table).Take(ctx)
			if err != nil {
				return err
			}
			defer slot.Release()
			if err := conn.Check(ctx, w.system.pool); err != nil {
				return explain(err)
			}
			return w.table.CheckVersion(ctx, w.system.pool)
		})
		if err == nil || fault.IsMisfit(err) {
			return err
		}
		if ctx.Err() == nil {
			logError(w.logger, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
			pause = min(pause*2, outage.MaxPause)
		}
	}
}

// serve runs the worker's parts and stops them in order: first the claims, then the handlers, then the settles, and the
// renewals last.
func (w *Worker) serve(ctx context.Context) error {
	detached := context.WithoutCancel(ctx)
	var intake, handlers, settlers, renewals sync.WaitGroup
	renewCtx, stopRenewals := context.WithCancel(detached)
	defer stopRenewals()

	renewals.Go(func() { w.renew(renewCtx) })
	w.settler.start(detached, &settlers)
	w.flow.Start(handlers.Go, func() { w.execute(&handlers) })
	intake.Go(func() { w.poll.Run(ctx) })
	w.work.beginIntake(w)
	w.phase.Store(phaseWorking)
	w.begins()

	<-ctx.Done()
	w.phase.Store(phaseStopping)
	w.work.endIntake(w)
	intake.Wait()
	defer w.settler.endAfter(w.options.ShutdownTimeout + w.abortGrace())()
	w.flow.Close()
	w.release(w.flow.Drain())
	stuck := w.awaitHandlers(&handlers)
	w.settler.stop()
	settlers.Wait()
	stopRenewals()
	renewals.Wait()
	if stuck > 0 {
		return fmt.Errorf("txwork: %d handlers of %s did not stop within %v of their context being cancelled: their "+
			"rows stay claimed until their lease ends",
			stuck, w.table.Name(), w.abortGrace())
	}
	return nil
}

// abortGrace is how long a handler whose context was cancelled may take to notice.
func (w *Worker) abortGrace() time.Duration { return max(w.options.ShutdownTimeout/4, time.Second) }

// awaitHandlers waits for running handlers, cancels those that take too long and counts those that do
// not stop even then.
func (w *Worker) awaitHandlers(handlers *sync.WaitGroup) int {
	done := make(chan struct{})
	go func() { handlers.Wait(); close(done) }()
	if waitFor(done, w.options.ShutdownTimeout) {
		return 0
	}
	for _, d := range w.inFlight.snapshot() {
		d.abort(ErrShutdown)
	}
	if waitFor(done, w.abortGrace()) {
		return 0
	}
	running, _ := w.flow.Load()
	return running
}

func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
