package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
	"github.com/txwork/txwork/workqueue/validate"
)

// QueueOptions say how a worker serves one queue.
type QueueOptions struct {
	// Name of the queue. Default: [DefaultQueue].
	Name string
	// Concurrency is how many jobs of the queue this worker runs at once. Default: the Concurrency of [WorkerOptions].
	Concurrency int
	// Priorities are the levels that are served. Default: all.
	Priorities []Priority
}

// WorkerOptions configure a [Worker]. The zero value serves [DefaultQueue].
//
// The embedded options apply to each queue. HandlerTimeout applies to kinds without a Timeout, and RunsWithin
// to kinds without a RunsWithin.
type WorkerOptions struct {
	workqueue.WorkerOptions

	// Queues are the queues that this worker serves. Each has handlers of its own, so busy jobs of one queue do not
	// delay those of another. They share the connections of one [workqueue.Runtime]. Run logs the kinds that have a
	// handler here but by default wait in other queues.
	Queues []QueueOptions

	// Registry has the handlers. Default: the client's registry. If neither is set, only Middleware can do jobs, and a
	// worker without Middleware is refused.
	Registry *Registry

	// Middleware wraps every handler. It is also called for kinds that have no handler. The first is outermost.
	Middleware []Middleware

	// Unknown says what happens to jobs of a kind that has no handler here. Default: [RetryUnknown].
	Unknown Unknown

	// NoSchedules leaves the schedules to other workers, or to a [Schedules.Scheduler]. This worker then only runs
	// jobs.
	NoSchedules bool
}

// A Worker runs jobs, and enqueues the jobs of schedules that are due. Any number of workers, in any number of
// processes, share the jobs' table.
type Worker struct {
	client    *Client
	pool      *pgxpool.Pool
	db        database // for the records of handlers: the pool, or the transaction of DrainIn
	options   WorkerOptions
	handle    Handler // dispatches every job, through the middleware and the wrappers
	wrappers  []Middleware
	unknowns  putOff
	queues    workqueue.Workers
	noQueues  bool                // the options named no queues
	scheduler *periodic.Scheduler // nil with NoSchedules
}

// NewWorker makes a worker for a client's jobs; Run starts it.
//
// The pool serves [Delivery.Tx], the records of handlers and the scheduler's transactions. Claims, renewals and settles
// of all queues and of the scheduler use the connections of one [workqueue.Runtime], so that busy handlers cannot
// starve them.
func NewWorker(pool *pgxpool.Pool, c *Client, o WorkerOptions) (*Worker, error) {
	switch {
	case c == nil:
		return nil, validate.Errorf("client", "is nil")
	case o.Registry == nil && c.options.Registry == nil && len(o.Middleware) == 0:
		return nil, validate.Errorf("Registry", "is nil, and the client has none: make one with NewRegistry, give it "+
			"to NewWorker or to Open, and call Register; to run schedules only, use Schedules.Scheduler")
	case o.Registry == nil:
		o.Registry = c.registry
	}
	return newWorker(pool, pool, c, o)
}

func newWorker(pool *pgxpool.Pool, db database, c *Client, o WorkerOptions) (*Worker, error) {
	w := &Worker{client: c, pool: pool, db: db, options: o, noQueues: len(o.Queues) == 0}
	if w.noQueues {
		w.options.Queues = []QueueOptions{{}}
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	w.handle = w.dispatch
	for _, m := range slices.Backward(o.Middleware) {
		w.handle = m(w.handle)
	}
	var err error
	if w.options.WorkerOptions, err = o.WithRuntime(pool); err != nil {
		return nil, err
	}
	if err := w.addQueues(); err != nil {
		return nil, err
	}
	if err := w.addScheduler(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Worker) addScheduler() error {
	if w.options.NoSchedules {
		return nil
	}
	var err error
	w.scheduler, err = w.client.schedules.Scheduler(w.pool, periodic.SchedulerOptionsOf(w.options.WorkerOptions))
	return err
}

func (w *Worker) check() error {
	if o := w.options; o.Unknown > LeaveUnknown {
		return validate.Errorf("Unknown", "is %d, want RetryUnknown or LeaveUnknown", o.Unknown)
	}
	for i, m := range w.options.Middleware {
		if m == nil {
			return validate.Errorf("Middleware", "%d of %d is nil", i+1, len(w.options.Middleware))
		}
	}
	return nil
}

func (w *Worker) addQueues() error {
	var names []string
	for _, q := range w.options.Queues {
		q.Name = cmp.Or(q.Name, DefaultQueue)
		if slices.Contains(names, q.Name) {
			return validate.Errorf("Queues", "name %q twice", q.Name)
		}
		names = append(names, q.Name)
	}
	for i, q := range w.options.Queues {
		q.Name = names[i]
		if err := w.addQueue(q); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) addQueue(q QueueOptions) error {
	if err := cmp.Or(input.Name("QueueOptions.Name", q.Name, MaxQueue), checkPriorities(q.Priorities)); err != nil {
		return err
	}
	o := w.options.WorkerOptions
	o.HandlerTimeout = 0 // the timeout depends on the kind, see dispatch
	if q.Concurrency != 0 {
		o.Concurrency = q.Concurrency
	}
	domain := workqueue.Domain[Delivery]{Table: w.client.table, Columns: (*Delivery).columns, Lanes: lanes(q)}
	if o := w.options; o.Unknown == LeaveUnknown && len(o.Middleware) == 0 {
		domain.Leaves = w.leaves
	}
	worker, err := workqueue.NewWorker(w.pool, domain, w.deliver, o)
	w.queues = append(w.queues, worker)
	return err
}

// lanes returns a lane for each priority that the worker serves, the most urgent first.
func lanes(q QueueOptions) [][]any {
	var lanes [][]any
	for _, p := range priorities {
		if len(q.Priorities) == 0 || slices.Contains(q.Priorities, p) {
			lanes = append(lanes, []any{q.Name, int16(p)})
		}
	}
	return lanes
}

func checkPriorities(list []Priority) error {
	for _, p := range list {
		if !slices.Contains(priorities, p) {
			return validate.Errorf("Priorities", "name %d, want High, Normal or Low", p)
		}
	}
	return nil
}

// Wrap adds middleware outside that of the options, also to a worker that an application has made, as in a test that
// injects faults. With several calls the last one is outermost. It panics on nil. Call it before Run or Drain.
func (w *Worker) Wrap(m Middleware) {
	if m == nil {
		panic("txwork: the middleware is nil")
	}
	w.wrappers = append(w.wrappers, m)
	w.handle = m(w.handle)
}

// Run runs jobs until ctx is cancelled. Then it stops claiming, returns jobs that were not started, waits for running
// ones up to the shutdown timeout, settles them, and returns nil. If the database becomes unavailable, Run waits for
// it. Run returns an error at once if the worker has no handler, or if a table does not fit this version of the
// library. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Check(); err != nil {
		return err
	}
	w.reportUnserved(ctx)
	return w.all().Run(ctx)
}

// Check returns an error if the worker has neither a handler nor middleware, which may do jobs by itself: it would fail
// every job that it claims. A service calls Check before it starts.
func (w *Worker) Check() error {
	if len(w.options.Registry.handled()) == 0 && len(w.options.Middleware) == 0 {
		var names []string
		for _, q := range w.options.Queues {
			names = append(names, cmp.Or(q.Name, DefaultQueue))
		}
		return validate.Errorf("Registry", "of the worker of %s %v has no handler: call Register before Run, with the "+
			"registry of the worker's options or, where there is none, the client's; to run schedules only, use "+
			"Schedules.Scheduler", w.client.Table().Name(), names)
	}
	return nil
}

// Drain returns the worker as a [workqueue.Drain], for platforms without a process that runs all the time, for
// commands, and for tests. Each of its runs enqueues the jobs of schedules that are due, does the jobs that are due,
// queue by queue, and returns. See [workqueue.Drain].
func (w *Worker) Drain() (*workqueue.Drain, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return w.all().Drain()
}

// DrainIn is [Worker.Drain] inside a transaction, such as that of a test that rolls back. What handlers record is
// written in the transaction, too, so a handler may not call two methods of its job at once. See
// [workqueue.Worker.DrainIn].
func (w *Worker) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	inside, err := newWorker(w.pool, tx, w.client, w.options)
	if err != nil {
		return nil, err
	}
	for _, m := range w.wrappers {
		inside.Wrap(m)
	}
	return inside.all().DrainIn(tx)
}

// all returns the scheduler and a worker for each queue. The scheduler is first, so that a drain does the jobs that it
// enqueues.
func (w *Worker) all() workqueue.Workers {
	if w.scheduler == nil {
		return slices.Clone(w.queues)
	}
	return append(w.scheduler.Workers(), w.queues...)
}

// Workers returns the workers of which this one consists. Workers and Tables make it a part of a service, see package
// service.
func (w *Worker) Workers() []*workqueue.Worker { return w.all() }

// Tables returns the tables of the jobs and of their schedules.
func (w *Worker) Tables() []*workqueue.Table { return w.client.Tables() }

// SetConcurrency changes how many jobs of one of its queues the worker runs at once, also while it runs, see
// [workqueue.Worker.SetConcurrency]. A queue that the worker does not serve is refused. To limit a queue over all
// processes, use [Client.SetLimits].
func (w *Worker) SetConcurrency(queue string, n int) error {
	for i, q := range w.options.Queues {
		if cmp.Or(q.Name, DefaultQueue) == queue {
			return w.queues[i].SetConcurrency(n)
		}
	}
	return validate.Errorf("queue", "%q is none of this worker's", queue)
}

// Wake makes a running worker look for jobs and schedules now. It never blocks.
func (w *Worker) Wake() { w.all().Wake() }

// dispatch is the innermost handler of the worker: it calls the handler of the job's kind, with the kind's timeout.
func (w *Worker) dispatch(ctx context.Context, d *Delivery) error {
	k := w.options.Registry.find(d.Kind)
	if k.handle == nil {
		return w.unknown(ctx, d)
	}
	timeout := k.timeout
	timeout = cmp.Or(timeout, w.options.HandlerTimeout)
	d.RunsWithin(cmp.Or(k.runsWithin, w.options.RunsWithin, workqueue.RunsWithin(timeout)))
	if timeout <= 0 {
		return k.handle(ctx, d)
	}
	tooLong := fmt.Errorf("job exceeded its timeout of %v", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, tooLong)
	defer cancel()
	err := k.handle(ctx, d)
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == tooLong {
		err = fmt.Errorf("%w: %w", tooLong, err)
	}
	return err
}
