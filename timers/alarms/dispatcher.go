package alarms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Defaults of [DispatcherOptions].
const (
	// DefaultPollInterval is the longest time between two polls. Most alarms are found earlier, by notifications.
	DefaultPollInterval = time.Second
	// DefaultLease is how long the crash of a dispatcher goes unnoticed. The lease is renewed while a delivery runs, so
	// it may be shorter than a delivery.
	DefaultLease = 2 * time.Minute
	// DefaultClaimLimit is how many alarms the first claim asks for at most. Later claims adapt to the load.
	DefaultClaimLimit = 100
	// DefaultConcurrency is how many deliveries run at once. It can be high, because deliveries mostly wait for the
	// network.
	DefaultConcurrency = 50
)

// repairInterval is how often a dispatcher looks for due alarms without a timer that could fire.
const repairInterval = 5 * time.Second

// DispatcherOptions configure a [Dispatcher]. The zero value is usable.
type DispatcherOptions struct {
	// PollInterval is the longest time between two polls for due alarms. Default: [DefaultPollInterval].
	PollInterval time.Duration
	// Lease is how long a claim lasts without renewal. Default: [DefaultLease].
	Lease time.Duration
	// ClaimLimit is how many alarms the first claim asks for, at most [workqueue.MaxBatch]. Default:
	// [DefaultClaimLimit].
	ClaimLimit int
	// Concurrency is how many deliveries run at once. Default: [DefaultConcurrency].
	Concurrency int
	// ShutdownTimeout is how long Run waits for running deliveries before it interrupts them. Default:
	// [workqueue.DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// Redact rewrites errors before they are stored. Default: they are stored as they are.
	Redact workqueue.Redactor
	// NoListen turns notifications off, so the dispatcher only polls. It is for connections through a pooler in
	// transaction mode.
	NoListen bool
	// ListenConfig connects the listener directly, past a pooler. Default: the pool's own configuration. If Runtime is
	// set, the ListenConfig of its [workqueue.RuntimeOptions] applies instead.
	ListenConfig *pgx.ConnConfig
	// Runtime is shared with other workers of the process on the same database. Default: one of the dispatcher's own.
	Runtime *workqueue.Runtime
}

func (o DispatcherOptions) withDefaults() DispatcherOptions {
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.ClaimLimit = cmp.Or(o.ClaimLimit, DefaultClaimLimit)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	return o
}

func (o DispatcherOptions) worker() timers.WorkerOptions {
	return timers.WorkerOptions{NoSchedules: true, WorkerOptions: workqueue.WorkerOptions{
		Concurrency:     o.Concurrency,
		ClaimLimit:      o.ClaimLimit,
		Lease:           o.Lease,
		PollInterval:    o.PollInterval,
		ShutdownTimeout: o.ShutdownTimeout,
		Redact:          o.Redact,
		NoListen:        o.NoListen,
		ListenConfig:    o.ListenConfig,
		Runtime:         o.Runtime,
	}}
}

// A Dispatcher delivers due alarms. Any number of dispatchers, in any number of processes, can share the tables.
type Dispatcher struct {
	store   *Store
	waker   Waker
	options DispatcherOptions
	logger  *slog.Logger
	worker  *timers.Worker
}

// NewDispatcher creates a dispatcher; Run starts it. The pool serves the settles. Claims and renewals use the
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
	logger = cmp.Or(logger, slog.Default())
	d := &Dispatcher{store: a.On(pool), waker: waker, options: o.withDefaults(),
		logger: logger.With("table", a.timers.Table().Name())}
	var err error
	if d.worker, err = timers.NewWorker(pool, a.timers, d.options.worker()); err != nil {
		return nil, err
	}
	d.worker.Handle(Topic, d.Deliver)
	d.worker.HandleAll(func(context.Context, *timers.Delivery) error {
		return workqueue.LeaveFor(foreignDelay, errForeign)
	})
	return d, nil
}

// Workers returns the dispatcher's workers. With Workers and Tables, a dispatcher can be a part of a service, see
// package service.
func (d *Dispatcher) Workers() []*workqueue.Worker { return d.worker.Workers() }

// Tables returns the tables for the reaper.
func (d *Dispatcher) Tables() []*workqueue.Table { return d.store.alarms.timers.Tables() }

// SetConcurrency changes how many deliveries run at once, also while the dispatcher runs, see
// [workqueue.Worker.SetConcurrency].
func (d *Dispatcher) SetConcurrency(n int) error { return d.worker.SetConcurrency(n) }

// Run delivers until ctx is cancelled. Then it claims no more, waits for running deliveries until the ShutdownTimeout
// expires, and returns nil.
//
// If the database becomes unavailable, Run waits for it. Run returns an error at once if a table does not fit this
// version of the library, or if the pool's role may not claim and settle, see [Dispatcher.Check]. A Dispatcher can run
// only once.
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

// foreignDelay is how long a timer of another topic is left to its own worker.
const foreignDelay = 5 * time.Second

// errForeign is the last error of such a timer.
var errForeign = errors.New("a dispatcher of alarms leaves timers of other topics to their workers")

// Deliver is the handler for the alarms' timers. Register it if a [timers.Worker] of your own serves other topics, too:
//
//	worker.Handle(alarms.Topic, dispatcher.Deliver)
//
// Then also call [Dispatcher.Repair] from time to time.
func (d *Dispatcher) Deliver(ctx context.Context, t *timers.Delivery) error {
	id, err := alarmID(t.Key)
	if err != nil {
		return workqueue.Permanent(err)
	}
	logger := d.logger.With(slog.String("topic", t.Topic), slog.String("id", t.ID.String()),
		slog.String("alarm", id.String()))
	alarm, active, err := d.store.begin(ctx, id)
	if err != nil {
		logger.WarnContext(ctx, "an alarm could not be read", slog.Any("error", err))
		return workqueue.Snooze(unreadDelay) // nothing was delivered, so this is no failed attempt
	}
	if !active {
		return workqueue.Cancelled(errEnded.Error())
	}
	firing := due{Alarm: alarm, alarms: d.store.alarms, delivery: t, logger: logger}
	f := d.wake(ctx, newWake(firing))
	if interrupted(ctx) {
		return errors.Join(f.cause, context.Cause(ctx)) // the delivery did not fail, it was interrupted
	}
	f.cause = d.redacted(ctx, f.cause)
	return d.settle(ctx, firing, f)
}

// alarmID returns the id of the alarm to which the timer with the key belongs.
func alarmID(key string) (uuid.UUID, error) {
	id, found := strings.CutPrefix(key, KeyPrefix)
	if !found {
		return uuid.Nil, validate.Errorf("key", "%q does not begin with %q", clip(key), KeyPrefix)
	}
	return uuid.Parse(id)
}

// unreadDelay is how long an alarm is snoozed if it could not be read from the database.
const unreadDelay = time.Second

// A failure is a Waker's error, analysed. The zero failure is a successful delivery.
type failure struct {
	cause     error
	permanent bool          // no delivery of the alarm will ever succeed
	after     time.Duration // the shortest delay before the next delivery
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

// wake calls the Waker. A panic is a failed delivery.
func (d *Dispatcher) wake(ctx context.Context, w Wake) (f failure) {
	defer func() {
		if r := recover(); r != nil {
			f = failure{cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	return failureOf(d.waker.Wake(ctx, w))
}

// interrupted reports whether the claim ended during the delivery, so the result of the delivery must not be recorded.
func interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, workqueue.ErrRowCancelled) || errors.Is(cause, workqueue.ErrShutdown) ||
		errors.Is(cause, workqueue.ErrLeaseLost)
}

// redacted returns the error as it may be stored. If the Redact hook panics, the text is withheld, because it may
// contain a secret.
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

// settleTries is how often a settle is tried, so that a short failure of the database does not cause a second delivery.
// settlePause is the pause between two tries.
const (
	settleTries = 3
	settlePause = 200 * time.Millisecond
)

// settle repeats conclude while the database fails. If only the reply to an earlier try was lost, the next try finds
// that the claim is settled.
func (d *Dispatcher) settle(ctx context.Context, firing due, f failure) (err error) {
	for try := 1; ; try++ {
		err = d.conclude(ctx, firing, f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errEnded):
			firing.logger.InfoContext(ctx, "alarm ended during its delivery")
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

// conclude decides what a successful or failed delivery means for the alarm. No other code does.
func (d *Dispatcher) conclude(ctx context.Context, firing due, f failure) error {
	if f.cause != nil && !f.permanent && !firing.last() {
		firing.logger.WarnContext(ctx, "wake failed and will be repeated", slog.Int("attempt", firing.delivery.Attempt),
			slog.Any("error", detail(f.cause)))
		return firing.retry(ctx, min(max(Ladder.Delay(firing.FailureCount+1), f.after), MaxDelay), f.cause)
	}
	next, ok, err := d.next(ctx, firing)
	switch {
	case err != nil:
		return err
	case f.cause == nil && ok:
		return firing.reschedule(ctx, next)
	case f.cause == nil:
		return firing.fired(ctx)
	}
	ok = ok && !f.permanent
	firing.logger.ErrorContext(ctx, "wake failed for good", slog.Int("attempt", firing.delivery.Attempt),
		slog.Bool("series goes on", ok), slog.Any("error", detail(f.cause)))
	if ok {
		return firing.skip(ctx, next, f.cause)
	}
	return firing.failed(ctx, f.cause)
}

// next returns the next time of a cron alarm; a once alarm has none.
func (d *Dispatcher) next(ctx context.Context, firing due) (next time.Time, ok bool, err error) {
	if firing.Kind != KindCron {
		return time.Time{}, false, nil
	}
	err = d.store.do(ctx, func(tx workqueue.Tx) error {
		now, err := clock(ctx, tx)
		next, ok = firing.next(firing.nominal(), now)
		return err
	})
	if err == nil && !ok {
		firing.logger.WarnContext(ctx, "the series has no next time and ends")
	}
	return next, ok, err
}
