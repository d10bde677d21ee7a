package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

func (f *fixture) schedules() *jobs.Schedules { return f.client.Schedules() }

func (f *fixture) put(s *jobs.Schedules, list ...jobs.Schedule) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error { return s.Put(f.Context(), tx, list...) })
}

// scheduler runs a scheduler until the test ends.
func (f *fixture) scheduler(s *jobs.Schedules) {
	f.Helper()
	scheduler, err := s.Scheduler(f.Pool, periodic.SchedulerOptions{})
	f.ok(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
}

func TestAScheduleEnqueuesItsJobs(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	type run struct {
		job     jobs.Job[mail]
		nominal time.Time
	}
	runs := make(chan run, 100)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		nominal, ok := job.Nominal()
		equal(t, "is an occurrence", ok, true)
		runs <- run{*job, nominal}
		return nil
	}, jobs.KindOptions[mail]{Queue: "mail", MaxAttempts: 3, Retry: jobs.Quadratic})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1s", Args: mail{To: "ann"}, Priority: jobs.High,
		Headers: map[string]string{"tenant": "7"}})
	f.scheduler(s)
	f.scheduler(s) // a second one: there is no leader, and each occurrence is enqueued once
	f.work(jobs.WorkerOptions{NoSchedules: true, Queues: []jobs.QueueOptions{{Name: "mail"}}})
	first, second := receive(t, runs), receive(t, runs)
	equal(t, "args", first.job.Args, mail{To: "ann"})
	equal(t, "schedule", first.job.Schedule, "digest")
	equal(t, "priority", first.job.Priority, jobs.High)
	equal(t, "max attempts", first.job.MaxAttempts, 3)
	equal(t, "header", first.job.Headers["tenant"], "7")
	equal(t, "interval", second.nominal.Sub(first.nominal), time.Second)
	equal(t, "occurrences", ask[bool](f, "SELECT count(*) = count(DISTINCT headers ->> 'txwork-nominal') FROM "+f.table), true)
	equal(t, "backoff", ask[string](f, "SELECT min(retry ->> 'growth') FROM "+f.table), "quadratic")
}

// A worker also runs the schedules of its client, unless NoSchedules is set.
func TestAWorkerRunsTheSchedules(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	ran := make(chan string, 100)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { ran <- job.Args.To; return nil },
		jobs.KindOptions[mail]{})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1s", Args: mail{To: "ann"}})
	f.work(jobs.WorkerOptions{})
	equal(t, "to", receive(t, ran), "ann")
}

func TestAWorkerWithNoSchedulesLeavesThem(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	ran := make(chan string, 100)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { ran <- job.Args.To; return nil },
		jobs.KindOptions[mail]{})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1s", Args: mail{To: "ann"}})
	f.exec("UPDATE " + f.table + "_schedule SET due_at = now()")
	f.work(jobs.WorkerOptions{NoSchedules: true})
	f.enqueue(mail{To: "bob"})
	equal(t, "to", receive(t, ran), "bob")
	equal(t, "claims of the schedule", ask[int](f, "SELECT attempts FROM "+f.table+"_schedule"), 0)
}

func TestADrainEnqueuesWhatSchedulesOweAndDoesIt(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	ran := make(chan string, 100)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { ran <- job.Args.To; return nil },
		jobs.KindOptions[mail]{})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1h", Args: mail{To: "ann"}})
	f.exec("UPDATE " + f.table + "_schedule SET due_at = now() - interval '1 minute', next_at = now() - interval '1 " +
		"minute'")
	w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{})
	f.ok(err)
	drain, err := w.Drain()
	f.ok(err)
	_, err = drain.Process(f.Context())
	f.ok(err)
	equal(t, "to", receive(t, ran), "ann")
}

func TestASchedulesOperations(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{Queue: "mail",
		ByKey: func(m mail) keyed.Rule { return keyed.Ordered{Key: m.To} }})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "0 6 * * *", Zone: "Europe/Berlin", Args: mail{To: "ann"}})
	f.inTx(func(tx workqueue.Tx) error {
		info, err := s.Get(f.Context(), tx, "digest")
		f.ok(err)
		equal(t, "info", fmt.Sprint(info.Kind, info.Queue, info.Priority, info.Expr, info.Zone, info.ByKey),
			"mailmailnormal0 6 * * *Europe/Berlin{ann block}")

		_, err = s.Trigger(f.Context(), tx, "digest")
		f.ok(err)
		now := time.Now()
		written, err := s.Backfill(f.Context(), tx, "digest", now.Add(-72*time.Hour), now.Add(-time.Hour))
		f.ok(err)
		again, err := s.Backfill(f.Context(), tx, "digest", now.Add(-72*time.Hour), now.Add(-time.Hour))
		f.ok(err)
		equal(t, "backfilled", fmt.Sprint(written >= 2 && written <= 3, again), "true 0")
		planned, err := s.PreviewBackfill(f.Context(), tx, "digest", now.Add(-96*time.Hour), now.Add(-time.Hour))
		f.ok(err)
		existing := slices.IndexFunc(planned, func(o periodic.Occurrence) bool { return o.Duplicate })
		equal(t, "existing", len(planned)-existing, written)
		f.ok(s.Pause(f.Context(), tx, "digest"))
		list, err := s.List(f.Context(), tx, periodic.Filter{})
		f.ok(err)
		equal(t, "paused", list[0].Paused, true)
		written++
		found, err := f.client.List(f.Context(), tx, jobs.Filter{Schedule: "digest"})
		equal(t, "jobs", len(found), written)
		f.ok(err)
		f.ok(s.Delete(f.Context(), tx, "digest"))
		_, err = s.Get(f.Context(), tx, "digest")
		if !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		return nil
	})
	f.fold()
	equal(t, "keyed", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE concurrency_key = 'ann' AND NOT waiting"), 1)
}

func TestAnOccurrenceThatMustNotOverlapWaitsForTheLiveOne(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	running, release := make(chan struct{}, 10), make(chan struct{})
	jobs.Register(f.kinds, func(context.Context,
		*jobs.Job[mail]) error {
		running <- struct{}{}
		<-release
		return nil
	}, jobs.KindOptions[mail]{})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1s", Args: mail{},
		Rule: schedule.Rule{Overlap: schedule.OverlapSkip}})
	f.scheduler(s)
	f.work(jobs.WorkerOptions{})
	receive(t, running)
	f.until("an occurrence was skipped", func() bool {
		return ask[int64](f, "SELECT skipped FROM "+f.table+"_schedule") > 0
	})
	equal(t, "running beside it", len(running), 0)
	close(release)
	receive(t, running)
}

// After a restore to an earlier moment a schedule's occurrences are written again. Handlers have used their ids as
// idempotency keys.
func TestAnOccurrenceThatIsWrittenAgainHasTheSameID(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
	s := f.schedules()
	all := schedule.Rule{Misfire: schedule.MisfireAll}
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@every 1h", Args: mail{}, Rule: all},
		jobs.Schedule{Name: "other", Expr: "@every 1h", Args: mail{}, Rule: all})
	f.exec("UPDATE " + f.table + "_schedule SET next_at = date_trunc('hour', next_at) - interval '10 hours'")
	table := f.table + "_schedule"
	f.exec("CREATE TABLE earlier AS TABLE " + table)
	fire := func() string {
		f.exec("UPDATE " + table + " SET due_at = now()")
		scheduler, err := s.Scheduler(f.Pool, periodic.SchedulerOptions{})
		f.ok(err)
		drain, err := scheduler.Drain()
		f.ok(err)
		_, err = drain.Process(f.Context())
		f.ok(err)
		return ask[string](f, "SELECT string_agg(concat_ws(' ', schedule, headers ->> 'txwork-nominal', id), E'\n' "+
			"ORDER BY schedule, headers ->> 'txwork-nominal') FROM "+f.table)
	}
	first := fire()
	equal(t, "occurrences", ask[bool](f, "SELECT count(*) >= 20 FROM "+f.table), true)
	f.exec("DELETE FROM " + f.table)
	f.exec("DELETE FROM " + table)
	f.exec("INSERT INTO " + table + " TABLE earlier")
	equal(t, "after the restore", fire(), first)

	f.exec("DELETE FROM " + f.table)
	f.inTx(func(tx workqueue.Tx) error {
		for _, name := range []string{"digest", "other"} {
			now := ask[time.Time](f, "SELECT max(last_at) FROM "+table)
			written, err := s.Backfill(f.Context(), tx, name, now, now)
			f.ok(err)
			equal(t, "backfilled", written, 1)
		}
		return nil
	})
	equal(t, "fired and backfilled", ask[bool](f, "SELECT bool_and(strpos($1, id::text) > 0) FROM "+f.table, first), true)

	f.exec("UPDATE " + f.table + " SET status = 3, completed_at = now(), failed_at = now()")
	f.redrive(ask[uuid.UUID](f, "SELECT id FROM "+f.table+" WHERE schedule = 'digest'"))
	f.inTx(func(tx workqueue.Tx) error {
		now := ask[time.Time](f, "SELECT max(last_at) FROM "+table)
		written, err := s.Backfill(f.Context(), tx, "digest", now, now)
		f.ok(err)
		equal(t, "backfilled beside a redriven occurrence", written, 0)
		o, err := s.Trigger(f.Context(), tx, "digest")
		f.ok(err)
		again, err := s.Trigger(f.Context(), tx, "digest")
		f.ok(err)
		triggered, err := f.client.Get(f.Context(), tx, o.ID)
		f.ok(err)
		equal(t, "triggered", triggered.Schedule, "digest")
		equal(t, "triggers with one id", o.ID == again.ID, false)
		return nil
	})
}
