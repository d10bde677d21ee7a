package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// Cron runs schedules that are due every second, and measures how late their jobs start, by the database's clock.
type Cron struct {
	Schedules int64         `json:"schedules"`
	Duration  time.Duration `json:"duration_ns"`
	Payload   int           `json:"payload_bytes"` // bytes
}

// Name implements [Workload].
func (Cron) Name() string { return "cron" }

func (c Cron) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newJobStore(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := c.put(ctx, l, s.client.Schedules()); err != nil {
		return nil, err
	}
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return nil, err
	}
	f := &firings{tally: newTally(0)}
	took, err := c.fire(ctx, l, s, s.client.Schedules(), f)
	if err != nil {
		return nil, err
	}
	r, err := f.result(ctx, l, m)
	if err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	if r.Jobs, r.Lost, err = c.reckon(finish, l); err != nil {
		return nil, err
	}
	return r.took(took.Seconds()), nil
}

// put creates the schedules, a thousand in each transaction.
func (c Cron) put(ctx context.Context, l *lab, schedules *jobs.Schedules) error {
	return l.write(ctx, "putting", c.Schedules, c.Payload, func(ctx context.Context, tx pgx.Tx,
		parcels []parcel) error {
		list := make([]jobs.Schedule, len(parcels))
		for i, p := range parcels {
			list[i] = jobs.Schedule{Name: fmt.Sprint("bench/", p.number), Expr: "@every 1s", Args: p}
		}
		return schedules.Put(ctx, workqueue.Pgx(tx), list...)
	})
}

// fire runs the scheduler and the worker for the duration, and then only the worker until all jobs are done.
func (c Cron) fire(ctx context.Context, l *lab, s *jobStore, schedules *jobs.Schedules, f *firings) (took time.Duration,
	err error) {
	pool, err := l.pool(ctx, 2*fillConnections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if f.clock, err = l.readClock(ctx); err != nil {
		return 0, err
	}
	w, err := f.worker(pool, s)
	if err != nil {
		return 0, err
	}
	scheduler, err := schedules.Scheduler(pool, periodic.SchedulerOptions{})
	if err != nil {
		return 0, err
	}
	seconds := func() int64 { return int64(time.Since(f.tally.begun).Seconds()) }
	f.tally.begun = time.Now()
	defer l.watch("running", int64(c.Duration.Seconds()), seconds)()
	working, planning := start(ctx, w), start(ctx, scheduler)
	c.last(ctx, working, planning)
	if err = planning.halt(); err == nil {
		err = l.emptied(ctx, working, f.tally)
	}
	took = time.Since(f.tally.begun)
	if haltErr := working.halt(); err == nil {
		err = haltErr
	}
	return took, err
}

// worker makes a worker that records each job as a firing, at the time that its schedule names.
func (f *firings) worker(pool *pgxpool.Pool, s *jobStore) (*jobs.Worker, error) {
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(_ context.Context, job *jobs.Job[parcel]) error {
		if nominal, ok := job.Nominal(); ok {
			f.fire(nominal)
		}
		return nil
	}, jobs.KindOptions[parcel]{})
	options := s.options
	options.Registry = registry
	// The workload has its own scheduler: once that is stopped, no more jobs are written.
	options.NoSchedules = true
	return jobs.NewWorker(pool, s.client, options)
}

// last waits until the duration is over or a crew ends.
func (c Cron) last(ctx context.Context, crews ...*crew) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	for _, crew := range crews {
		defer context.AfterFunc(crew.ended, cancel)()
	}
	<-ctx.Done()
}

// emptied waits until all existing jobs are done.
func (l *lab) emptied(ctx context.Context, working *crew, t *tally) error {
	query := "SELECT count(*) FROM " + l.in("jobs") + " WHERE completed_at IS NULL"
	count, moved := t.count(), time.Now()
	for time.Since(moved) < stallLimit && working.ended.Err() == nil && ctx.Err() == nil {
		var left int64
		if err := l.meter.query(ctx, []any{&left}, query); err != nil || left == 0 {
			return err
		}
		_ = pause(ctx, 20*time.Millisecond)
		if n := t.count(); n != count {
			count, moved = n, time.Now()
		}
	}
	return nil
}

// reckon counts what was done and what is missing: jobs that are not done, seconds since a schedule's first occurrence
// without a job, and schedules without any job. The last two seconds do not count, because the scheduler was stopped at
// some time within them.
func (c Cron) reckon(ctx context.Context, l *lab) (done, lost int64, err error) {
	query := fmt.Sprintf(`
		WITH occurrences AS (
			SELECT j.schedule, j.status, (j.headers ->> 'txwork-nominal')::timestamptz AS nominal
			FROM %s AS j
		), schedules AS (
			SELECT count(*) FILTER (WHERE o.status = 2) AS done,
			       round(extract(epoch FROM greatest(max(o.nominal), c.latest - interval '2 seconds') - min(o.nominal))) + 1 AS expected
			FROM occurrences AS o
			CROSS JOIN (SELECT max(nominal) AS latest FROM occurrences) AS c
			GROUP BY o.schedule, c.latest
		)
		SELECT coalesce(sum(s.done), 0)::bigint, coalesce(sum(s.expected - s.done), 0)::bigint, count(*)
		FROM schedules AS s`, l.in("jobs"))
	var fired int64
	err = l.meter.query(ctx, []any{&done, &lost, &fired}, query)
	return done, lost + c.Schedules - fired, err
}
