package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Timers sets timers that are due evenly within a period, and measures how late they fire, by the database's clock.
type Timers struct {
	Due     int64         `json:"due"`
	Within  time.Duration `json:"within_ns"`
	Payload int           `json:"payload_bytes"` // bytes
}

// Name implements [Workload].
func (Timers) Name() string { return "timers" }

func (c Timers) run(ctx context.Context, l *lab) (*Result, error) {
	up, _, err := timers.DDL(l.schema)
	if err != nil {
		return nil, err
	}
	if err := l.meter.exec(ctx, up); err != nil {
		return nil, err
	}
	set, err := timers.Open(timers.Options{Schema: l.schema, Telemetry: l.telemetry()})
	if err != nil {
		return nil, err
	}
	first, err := c.setInTime(ctx, l, set)
	if err != nil {
		return nil, err
	}
	m, err := l.begin(ctx, set.Table().Spec().Table)
	if err != nil {
		return nil, err
	}
	f := &firings{first: first, tally: newTally(c.Due)}
	took, err := c.fire(ctx, l, set, f)
	if err != nil {
		return nil, err
	}
	r, err := f.result(ctx, l, m)
	if err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	query := "SELECT count(*) FROM " + l.in(m.table) + " WHERE status = 2"
	if err := l.meter.query(finish, []any{&r.Jobs}, query); err != nil {
		return nil, err
	}
	r.Lost = c.Due - r.Jobs
	return r.took(took.Seconds()), nil
}

const (
	// setPerSecond is far below what a server can take, so that all timers are set before the first is due.
	setPerSecond = 4000
	// setTries is how often they are set on a server that is slower, each time further ahead.
	setTries = 4
	// connectTime is left for the worker to begin.
	connectTime = time.Second
)

// setInTime sets the timers before the first is due, and returns when that is.
func (c Timers) setInTime(ctx context.Context, l *lab, set *timers.Timers) (first time.Time, err error) {
	lead := 3*time.Second + time.Duration(float64(c.Due)/setPerSecond*float64(time.Second))
	for range setTries {
		var late time.Duration
		if first, late, err = c.set(ctx, l, set, lead); err != nil || late < 0 {
			return first, err
		}
		lead *= 4
	}
	return first, fmt.Errorf("setting %d timers took longer than %v: the server is too slow for so many", c.Due, lead/4)
}

// set sets the timers, and returns when the first is due, and how long ago that was when it returned.
func (c Timers) set(ctx context.Context, l *lab, set *timers.Timers, lead time.Duration) (first time.Time,
	late time.Duration, err error) {
	err = l.meter.query(ctx, []any{&first}, "SELECT clock_timestamp()")
	if err != nil {
		return first, 0, err
	}
	first = first.Add(lead)
	begun := time.Now()
	err = l.write(ctx, "setting", c.Due, c.Payload, func(ctx context.Context, tx pgx.Tx, parcels []parcel) error {
		list := make([]timers.Timer, len(parcels))
		for i, p := range parcels {
			payload, _ := p.MarshalBinary()
			after := time.Duration(float64(p.number) / float64(c.Due) * float64(c.Within))
			list[i] = timers.Timer{Key: fmt.Sprint("bench/", p.number), Topic: "bench", ScheduledAt: first.Add(after),
				Payload: payload}
		}
		_, err := set.SetMany(ctx, workqueue.Pgx(tx), list...)
		return err
	})
	if err == nil {
		err = l.settle(ctx, set.Table().Spec().Table)
	}
	return first, time.Since(begun) - lead + connectTime, err
}

// firings records what the handler sees.
type firings struct {
	tally *tally
	clock clock
	first time.Time // when the first timer is due
	late  latencies
	early atomic.Int64
}

// result lacks what is counted in the table afterwards.
func (f *firings) result(ctx context.Context, l *lab, m *measurement) (r *Result, err error) {
	early := f.early.Load()
	r = &Result{PerSecond: f.tally.perSecond(), Early: &early}
	r.latencies("lateness", f.late.list())
	if l.server == nil {
		r.clockDoubt = measure.Milliseconds(f.clock.doubt)
	}
	r.Costs, err = m.end(ctx, f.tally.count(), f.tally.count())
	return r, err
}

// fire counts a timer as early only if that cannot be an error of the clock.
func (f *firings) fire(fireAt time.Time) {
	late := f.clock.now().Sub(fireAt)
	if late < -f.clock.doubt {
		f.early.Add(1)
	}
	f.late.add(max(late, 0))
	f.tally.add()
}

func (c Timers) fire(ctx context.Context, l *lab, set *timers.Timers, f *firings) (took time.Duration, err error) {
	pool, err := l.pool(ctx, fillConnections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if f.clock, err = l.readClock(ctx); err != nil {
		return 0, err
	}
	w, err := timers.NewWorker(pool, set, timers.WorkerOptions{
		WorkerOptions: workqueue.WorkerOptions{ShutdownTimeout: shutdownLimit},
		NoSchedules:   true,
	})
	if err != nil {
		return 0, err
	}
	w.HandleAll(func(_ context.Context, d *timers.Delivery) error {
		f.fire(d.ScheduledAt)
		return nil
	})
	defer l.watch("firing", c.Due, f.tally.count)()
	f.tally.begun = time.Now().Add(f.first.Sub(f.clock.now()))
	crew := start(ctx, w)
	err = l.await(ctx, crew, f.tally, stallLimit+time.Until(f.tally.begun)+c.Within/time.Duration(c.Due))
	took = max(time.Since(f.tally.begun), 0)
	if haltErr := crew.halt(); err == nil {
		err = haltErr
	}
	return took, err
}
