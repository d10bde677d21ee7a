package demo

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/reaper"
)

// ErrInterrupted says that the context ended before the demo did. Nothing is left behind.
var ErrInterrupted = errors.New("interrupted")

// reapEvery is short compared with the lease, so that the recovery takes hardly longer than the lease.
const reapEvery = 250 * time.Millisecond

// Run plays the demo and reconciles the result. An error means that the demo did not get to its end; what the
// reconciliation found is in the report, see [Result.Err].
func Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	p, err := o.plan()
	if err != nil {
		return Report{}, err
	}
	show := newDisplay(o.Progress, p.committed())
	report, err := run(ctx, o, p, show, began)
	show.done()
	if err != nil && ctx.Err() != nil {
		return report, errors.Join(ErrInterrupted, leftBehind(err))
	}
	return report, err
}

func run(ctx context.Context, o Options, p plan, show *display, began time.Time) (report Report, err error) {
	if o.DatabaseURL == "" {
		show.say("starting a private PostgreSQL")
	}
	d, err := openDatabase(ctx, o.DatabaseURL)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, mark(d.close(ctx))) }()
	if o.Audience != nil {
		if err := o.Audience.Enter(ctx, d.url, d.schema); err != nil {
			return report, err
		}
	}
	r := &performance{options: o, plan: p, database: d, show: show}
	if err := r.play(ctx); err != nil {
		return report, err
	}
	report = Report{RolledBack: p.rolledBack(), Retried: p.retried, Frozen: r.frozen, Killed: r.killed}
	if report.Result, err = reckon(ctx, d, p, began); err != nil || o.Audience == nil {
		return report, err
	}
	show.done()
	return report, o.Audience.Stay(ctx, report)
}

// A cleanupError says what is left behind. It is reported even after an interruption, whose own error is not.
type cleanupError struct{ error }

func (e cleanupError) Unwrap() error { return e.error }

func mark(err error) error {
	if err == nil {
		return nil
	}
	return cleanupError{err}
}

func leftBehind(err error) error {
	if left, ok := errors.AsType[cleanupError](err); ok {
		return left
	}
	return nil
}

// A performance is one run on an open database.
type performance struct {
	options  Options
	plan     plan
	database *database
	show     *display

	bank       *bank
	crew       *crew
	production *production
	watch      *watch
	frozen     Fault
	killed     Fault
}

// play returns when every message has ended and every started process has exited.
func (r *performance) play(ctx context.Context) (err error) {
	if r.bank, err = openBank(ctx, r.database, r.plan); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.bank.close()) }()
	r.crew, err = startCrew(ctx, r.options.Worker, r.database, r.show)
	if r.crew != nil {
		defer r.crew.end()
	}
	if err != nil {
		return err
	}
	r.show.say("%d worker processes are running in schema %s, %s to apply",
		crewSize, r.database.schema, count(r.plan.committed(), "message"))
	r.show.begin()
	r.production = &production{bank: r.bank, plan: r.plan}
	r.watch = &watch{bank: r.bank, schema: r.database.schema, production: r.production, show: r.show}
	return r.together(ctx)
}

// together runs the plot, and what goes on beside it until the plot ends.
func (r *performance) together(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	beside, over := context.WithCancel(ctx)
	group.Go(func() error { return r.reap(beside) })
	group.Go(func() error { return r.crew.watch(beside) })
	group.Go(func() error { return r.watch.run(beside) })
	group.Go(func() error {
		defer over()
		return r.plot(ctx)
	})
	return group.Wait()
}

func (r *performance) reap(ctx context.Context) error {
	return reaper.Run(ctx, r.bank.pool, r.bank.outbox.Tables(),
		reaper.Options{Schema: r.database.schema, Interval: reapEvery, Logger: quiet(os.Stderr)})
}

// plot makes the transfers while workers fail, and waits until every message has ended.
func (r *performance) plot(ctx context.Context) error {
	group, active := errgroup.WithContext(ctx)
	freezeAt, killAt := freezeGate(r.plan), killGate(r.plan)
	r.production.gates = []*gate{freezeAt, killAt}
	group.Go(func() error { return r.production.run(active) })
	group.Go(func() (err error) {
		f := &faults{crew: r.crew, bank: r.bank, schema: r.database.schema, show: r.show}
		r.frozen, r.killed, err = f.run(active, freezeAt, killAt)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.watch.drained(ctx); err != nil {
		return err
	}
	return r.crew.dismiss()
}
