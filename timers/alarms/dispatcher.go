package alarms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Defaults of [DispatcherOptions].
const (
	// DefaultTick is the longest time between two looks. Notifications make most of them needless.
	DefaultTick = time.Second
	// DefaultLease is how long the crash of a dispatcher goes unnoticed. It is renewed while a delivery runs, so
	// it need not be longer than any.
	DefaultLease = 2 * time.Minute
	// DefaultBatch is the first size of a claim, which then adapts to the load.
	DefaultBatch = 100
	// DefaultConcurrency is how many deliveries run at once: they wait for a network.
	DefaultConcurrency = 50
)

// repairInterval is how often a dispatcher looks for alarms that no timer would fire.
const repairInterval = 5 * time.Second

// DispatcherOptions configure a [Dispatcher]. The zero value is usable.
type DispatcherOptions struct {
	// Tick is the longest time between two looks for due alarms. Default: [DefaultTick].
	Tick time.Duration
	// Lease is how long a claim holds without renewal. Default: [DefaultLease].
	Lease time.Duration
	// Batch is the first size of a claim, at most [workqueue.MaxBatch]. Default: [DefaultBatch].
	Batch int
	// Concurrency is how many deliveries run at once. Default: [DefaultConcurrency].
	Concurrency int
	// ShutdownTimeout is how long Run waits for deliveries that are under way, before it breaks them off.
	// Default: [workqueue.DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// Redact rewrites errors before they are stored. Default: they are stored as they are.
	Redact workqueue.Redactor
	// NoListen turns notifications off: the dispatcher polls. For connections through a transaction pooler.
	NoListen bool
	// ListenConfig connects the listener past a pooler. Default: the pool's own configuration. With a Runtime, that of
	// [workqueue.RuntimeOptions] holds.
	ListenConfig *pgx.ConnConfig
	// Runtime is shared with other workers of the process on the same database. Default: one of the dispatcher's own.
	Runtime *workqueue.Runtime
}

func (o DispatcherOptions) withDefaults() DispatcherOptions {
	setDefault(&o.Tick, DefaultTick)
	setDefault(&o.Lease, DefaultLease)
	setDefault(&o.Batch, DefaultBatch)
	setDefault(&o.Concurrency, DefaultConcurrency)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o DispatcherOptions) worker() timers.WorkerOptions {
	return timers.WorkerOptions{NoSchedules: true, WorkerOptions: workqueue.WorkerOptions{
		Concurrency:     o.Concurrency,
		ClaimLimit:      o.Batch,
		Lease:           o.Lease,
		PollInterval:    o.Tick,
		ShutdownTimeout: o.ShutdownTimeout,
		Redact:          o.Redact,
		NoListen:        o.NoListen,
		ListenConfig:    o.ListenConfig,
		Runtime:         o.Runtime,
	}}
}

// A Dispatcher delivers due alarms. Any number of them, in any number of processes, share the tables.
type Dispatcher struct {
	store   *Store
	waker   Waker
	options DispatcherOptions
	logger  *slog.Logger
	worker  *timers.Worker
}

// NewDispatcher makes a dispatcher; Run starts it. The pool serves the settles; claims and renewals have the
// connections of a [workqueue.Runtime].
func NewDispatcher(pool *pgxpool.Pool, a *Alarms, waker Waker, o DispatcherOptions) (*Dispatcher, error) {
	switch {
	case pool == nil:
		return nil, validate.Errorf("pool", "is nil")
	case a == nil:
		return nil, validate.Errorf("alarms", "are nil")
	case waker == nil:
		return nil, validate.Errorf("waker", "is nil")
	}
	logger := a.options.Telemetry.Logger
	if logger == nil {
		logger = slog.Default()
	}
	d := &Dispatcher{store: a.On(pool), waker: waker, options: o.withDefaults(),
		logger: logger.With("table", a.timers.Table().Name())}
	var err error
	if d.worker, err = timers.NewWorker(pool, a.timers, d.options.worker()); err != nil {
		return nil, err
	}
	d.worker.Handle(Topic, d.Deliver)
	d.worker.HandleAll(func(context.Context, *timers.Delivery) error { return workqueue.Snooze(foreignDelay) })
	return d, nil
}

// Workers and Tables make a dispatcher a part of a service, see package service.
func (d *Dispatcher) Workers() []*workqueue.Worker { return d.worker.Workers() }

// Tables are those that the reaper maintains.
func (d *Dispatcher) Tables() []*workqueue.Table { return d.store.alarms.Tables() }

// SetConcurrency changes how many deliveries run at once, also while the dispatcher runs, see
// [workqueue.Worker.SetConcurrency].
func (d *Dispatcher) SetConcurrency(n int) error { return d.worker.SetConcurrency(n) }

// Run delivers until ctx is cancelled. Then it claims no more, waits for deliveries that are under way up to the
// shutdown timeout, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if a table does not fit
// this version of the library, or if the pool's role may not claim and settle, see [Dispatcher.Check]. A Dispatcher
// runs once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := d.mayDeliver(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var repairs sync.WaitGroup
	repairs.Go(func() { d.repairs(ctx) })
	err := d.worker.Run(ctx)
	stop()
	repairs.Wait()
	return err
}

// Deliver is the handler of the alarms' timers, for a [timers.Worker] of your own that serves other topics, too:
//
//	worker.Handle(alarms.Topic, dispatcher.Deliver)
//
// Call [Dispatcher.Repair] from time to time beside it.
func (d *Dispatcher) Deliver(ctx context.Context, t *timers.Delivery) error {
	id, err := alarmID(t.Key)
	if err != nil {
		return workqueue.Permanent(err)
	}
	logger := d.logger.With(slog.String("topic", t.Topic), slog.String("id", t.ID.String()),
		slog.String("alarm", id.String()))
	list, err := d.store.beginAll(ctx, []uuid.UUID{id})
	if err != nil {
		logger.WarnContext(ctx, "an alarm could not be read", slog.Any("error", err))
		return workqueue.Snooze(unreadDelay) // nothing was delivered, so nothing failed
	}
	if len(list) == 0 {
		return workqueue.Cancelled(ErrEnded.Error())
	}
	due := Due{Alarm: list[0], Nominal: t.ScheduledAt.UTC(), Attempt: t.Attempt, most: t.MaxAttempts, tx: deliveryTx(t),
		logger: logger}
	f := d.wake(ctx, newWake(due))
	if interrupted(ctx) {
		return errors.Join(f.cause, context.Cause(ctx)) // the delivery did not fail: it was broken off
	}
	f.cause = d.redacted(ctx, f.cause)
	return d.settle(ctx, due, f)
}

// unreadDelay is how long an alarm rests that could not be read: the trouble is the database's.
const unreadDelay = time.Second

// A failure is what a Waker says of a delivery; the zero failure is none.
type failure struct {
	cause     error
	permanent bool          // no delivery will succeed
	after     time.Duration // no delivery before that
}

func failureOf(err error) failure {
	var o *workqueue.Outcome
	if !errors.As(err, &o) {
		return failure{cause: err}
	}
	f := failure{cause: o.Unwrap(), permanent: o.IsPermanent()}
	if f.cause == nil {
		f.cause = err
	}
	f.after, _ = o.RetryDelay()
	return f
}

// wake contains panics: they are failed deliveries.
func (d *Dispatcher) wake(ctx context.Context, w Wake) (f failure) {
	defer func() {
		if r := recover(); r != nil {
			f = failure{cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	return failureOf(d.waker.Wake(ctx, w))
}

// interrupted tells whether the claim has ended under the delivery, so that there is nothing of it to record.
func interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, workqueue.ErrRowCancelled) || errors.Is(cause, workqueue.ErrShutdown) ||
		errors.Is(cause, workqueue.ErrLeaseLost)
}

// redacted is the error as it may be stored. Should the hook panic, the text is withheld: it may hold a secret.
func (d *Dispatcher) redacted(ctx context.Context, err error) (redacted error) {
	if err == nil || d.options.Redact == nil {
		return err
	}
	defer func() {
		if recover() != nil {
			redacted = errors.New("withheld: the Redact hook panicked")
		}
	}()
	return errors.New(d.options.Redact(ctx, storable(err).Error()))
}

// settleTries is how often a settle is tried, so that an instant of trouble with the database does not deliver a
// wake twice; settlePause comes between two tries.
const (
	settleTries = 3
	settlePause = 200 * time.Millisecond
)

// settle is repeated while the database fails. A repeated settle whose first reply was lost finds the claim settled.
func (d *Dispatcher) settle(ctx context.Context, due Due, f failure) (err error) {
	for try := 1; ; try++ {
		err = d.conclude(ctx, due, f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrEnded):
			due.logger.InfoContext(ctx, "alarm ended during its delivery")
			return nil
		case errors.Is(err, workqueue.ErrLeaseLost) || ctx.Err() != nil || try == settleTries:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(settlePause):
		}
	}
}

// conclude is the one place that decides what a delivery, or its failure, means for the alarm.
func (d *Dispatcher) conclude(ctx context.Context, due Due, f failure) error {
	if f.cause != nil && !f.permanent && !due.last() {
		due.logger.WarnContext(ctx, "wake failed and will be repeated", slog.Int("attempt", due.Attempt),
			slog.Any("error", detail(f.cause)))
		return d.store.RecordRetry(ctx, due, min(max(Ladder.Delay(due.FailureCount+1), f.after), MaxDelay), f.cause)
	}
	next, ok, err := d.next(ctx, due)
	switch {
	case err != nil:
		return err
	case f.cause == nil && ok:
		return d.store.Reschedule(ctx, due, next)
	case f.cause == nil:
		return d.store.MarkFired(ctx, due)
	}
	ok = ok && !f.permanent
	due.logger.ErrorContext(ctx, "wake failed for good", slog.Int("attempt", due.Attempt),
		slog.Bool("series goes on", ok), slog.Any("error", detail(f.cause)))
	if ok {
		return d.store.RescheduleAfterFailure(ctx, due, next, f.cause)
	}
	return d.store.MarkFailed(ctx, due, f.cause)
}

// next is the next time of a series; a once alarm has none.
func (d *Dispatcher) next(ctx context.Context, due Due) (next time.Time, ok bool, err error) {
	if due.Kind != KindCron {
		return time.Time{}, false, nil
	}
	err = d.store.do(ctx, func(tx workqueue.Tx) error {
		now, err := clock(ctx, tx)
		next, ok = due.next(due.Nominal, now)
		return err
	})
	if err == nil && !ok {
		due.logger.WarnContext(ctx, "the series has no next time and ends")
	}
	return next, ok, err
}
