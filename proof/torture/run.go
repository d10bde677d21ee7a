//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Run tortures txwork and checks it. A report comes with every error except those of the setup. The error is an
// [ErrViolated] if an invariant was broken.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := newLab(o)
	if err != nil {
		return nil, err
	}
	r := &run{lab: l, conductor: newConductor(l, o.Faults, o.Seed)}
	defer func() {
		r.conductor.close()
		err = errors.Join(err, l.close())
	}()
	if err := r.setUp(ctx); err != nil {
		l.crew.stop()
		return nil, err
	}
	r.torment(ctx)
	for _, failure := range l.crew.stop() {
		l.fail("%s", failure)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r.judge(ctx)
}

// A run is one call of Run.
type run struct {
	lab       *lab
	conductor *conductor
	shop      *shop
	producers *pgxpool.Pool
	backlog   backlog
	pulse     pulse
	stalled   bool
	began     time.Time
	calm      time.Time // when the last fault was over
	drained   time.Duration
}

func (r *run) setUp(ctx context.Context) (err error) {
	l := r.lab
	steps := []func(context.Context) error{
		l.reach,
		func(context.Context) error { return r.conductor.configure() },
		l.start, r.conductor.prepare, l.install, r.schedule,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if r.producers, err = l.open(ctx, "producers", 3*producerCount, nil); err != nil {
		return err
	}
	l.staff()
	for _, s := range l.crew.slots {
		if _, err := s.begun(ctx); err != nil {
			return err
		}
	}
	for _, s := range l.crew.workers() {
		if err := s.serves(ctx); err != nil {
			return err
		}
	}
	return nil
}

const scheduleName = "torture"

// schedule puts schedules that write a row every second, in both domains that have schedules.
func (r *run) schedule(ctx context.Context) (err error) {
	registry := jobs.NewRegistry()
	jobs.Declare(registry, jobs.KindOptions[Task]{})
	d, err := openDomains(r.lab.schema, registry, quiet())
	if err != nil {
		return err
	}
	r.shop = &shop{lab: r.lab, domains: d, committed: newTally()}
	r.lab.shop = r.shop
	rule := schedule.Rule{Misfire: schedule.MisfireAll}
	task := Task{Mode: modeTx, Name: scheduleName}
	return workqueue.InTx(ctx, r.lab.admin, func(tx workqueue.Tx) error {
		return errors.Join(
			d.timers.Schedules().Put(ctx, tx, timers.Schedule{Name: scheduleName, Expr: "@every 1s", Rule: rule,
				Topic: topic, Value: task}),
			d.jobs.Schedules().Put(ctx, tx, jobs.Schedule{Name: scheduleName, Expr: "@every 1s", Rule: rule,
				Args: task}))
	})
}

// unschedule deletes the schedules, so that no more rows are written.
func (r *run) unschedule(ctx context.Context) error {
	d := r.shop.domains
	return pgx.BeginFunc(ctx, r.lab.admin, func(tx pgx.Tx) error {
		in := workqueue.Pgx(tx)
		return errors.Join(d.timers.Schedules().Delete(ctx, in, scheduleName),
			d.jobs.Schedules().Delete(ctx, in, scheduleName))
	})
}

const (
	producerCount = 4
	reportEvery   = 5 * time.Second
)

// torment runs producers and faults until the time is over and the rows are written, and then waits for everything to
// drain.
func (r *run) torment(ctx context.Context) {
	r.began = time.Now()
	striking, over := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { r.backlog.watch(striking, r.lab) })
	all.Go(func() { r.report(striking) })
	all.Go(func() { r.pulse.watch(striking, r.lab) })
	all.Go(func() { r.conductor.run(ctx, striking.Done(), func() bool { return r.enough(ctx) }) })
	r.produce(ctx)
	over()
	all.Wait()
	r.calm = time.Now()
	if ctx.Err() == nil {
		r.drain(ctx)
	}
}

// produce returns when the duration is over, every fault has struck or the overtime is over and, if a number is given,
// so many rows have been committed.
func (r *run) produce(ctx context.Context) {
	var all sync.WaitGroup
	for i := range producerCount {
		p := newProducer(r.shop, r.producers, uint64(10+i))
		p.ofCrew, p.sql = true, !r.lab.options.GoOnly && i%2 > 0
		all.Go(func() {
			for !r.enough(ctx) {
				if r.backlog.high() || r.full() || r.lab.pausing.Load() {
					time.Sleep(retryBase)
					continue
				}
				p.produce()
			}
		})
	}
	all.Wait()
	r.producers.Close()
}

func (r *run) full() bool {
	return r.lab.options.Rows > 0 && r.shop.committed.count() >= r.lab.options.Rows
}

func (r *run) enough(ctx context.Context) bool {
	over := time.Since(r.began) >= r.lab.options.Duration+r.overtime()
	return ctx.Err() != nil || over && (r.lab.options.Rows == 0 || r.full())
}

// overtime is for how long a run goes on beyond its duration because a fault has not struck yet: for half of it at
// most.
func (r *run) overtime() time.Duration {
	most := r.lab.options.Duration / 2
	if at, ok := r.conductor.completed(); ok {
		return min(max(0, at.Sub(r.began.Add(r.lab.options.Duration))), most)
	}
	return most
}

func (r *run) report(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.lab.say("%v: %d rows committed, %d unfinished, %d processes ended",
				time.Since(r.began).Round(time.Second), r.shop.committed.count(), r.backlog.rows.Load(),
				r.lab.crew.deaths())
		}
	}
}

// drain waits until no row is left, for as long as their number changes.
func (r *run) drain(ctx context.Context) {
	start := time.Now()
	if err := r.lab.retry(ctx, r.unschedule); err != nil {
		r.lab.fail("the schedules could not be deleted: %v", err)
	}
	last, moved := int64(-1), start
	for ctx.Err() == nil {
		asked := time.Now()
		n, err := r.lab.unfinished(ctx)
		if err == nil {
			var more int64
			more, err = r.lab.logLeft(ctx)
			n += more
		}
		if err == nil && n == 0 {
			break
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > r.lab.options.patience() {
			r.stalled = true
			r.lab.tellLeft(ctx)
			break
		}
		time.Sleep(countingPause(time.Since(asked), retryBase))
	}
	r.drained = time.Since(start)
	r.lab.say("drained in %v", r.drained.Round(time.Millisecond))
}

// disturbed returns the times in which rows may have been held up: by faults, by a machine that stood still, before all
// workers served, and when an announcer's session failed by itself, as it does if it is too slow.
func (r *run) disturbed(records *records) []Disturbance {
	all := append(slices.Clone(r.lab.held), Disturbance{Span: Span{To: r.began}})
	for _, at := range records.broke {
		all = append(all, Disturbance{Span{at.Add(-failsWithin), at}, true})
	}
	if !r.calm.IsZero() { // the machine is not watched while it drains
		all = append(all, Disturbance{Span: Span{r.calm, never}})
	}
	return all
}

// failsWithin is longer than an announcer takes to notice that its session has ended.
const failsWithin = 5 * time.Second

// judge checks the records.
func (r *run) judge(ctx context.Context) (*Report, error) {
	l := r.lab
	records, err := l.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the records: %w", err)
	}
	log, err := records.log(ctx, r.stalled)
	if err != nil {
		return nil, fmt.Errorf("reading the records of the log: %w", err)
	}
	v := Check(records.histories(ctx), Facts{
		Outages: l.outages, Calls: records.calls,
		Strikes: r.conductor.strikes, Calm: r.calm, Stalled: r.stalled, Poll: l.options.Poll,
		Disturbed: r.disturbed(records),
	})
	if records.err != nil {
		return nil, fmt.Errorf("reading the audit table: %w", records.err)
	}
	ofLog := CheckLog(log, v.report)
	l.checkCrews(r.shop, records)
	l.checkReadings(ofLog)
	l.checkCrashes()
	report := r.summarise(v)
	report.Log = ofLog
	report.Announcers = r.announcers(v, records)
	report.Crews = r.shop.crewReports(records)
	return report, report.Err()
}
