package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func TestProgressIsSeenWhileAJobRuns(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	set, release := make(chan error), make(chan struct{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		set <- job.SetProgress(ctx, 40, "40 of 100 pages")
		<-release
		return job.Output(ctx, map[string]int{"pages": 100})
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}).ID
	f.ok(receive(t, set))
	info := f.get(id)
	equal(t, "status", info.Status, workqueue.InProgress)
	equal(t, "progress", *info.Progress, 40)
	equal(t, "note", info.ProgressNote, "40 of 100 pages")
	close(release)
	info = f.await(id, workqueue.Done)
	var output map[string]int
	f.ok(f.client.DecodeOutput(t.Context(), info, &output))
	equal(t, "output", output["pages"], 100)
}

// A handler whose lease has been lost can no longer record anything.
func TestRecordsNeedTheLease(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*fixture, workqueue.Tx, uuid.UUID) error{
		"reaped": func(f *fixture, tx workqueue.Tx, id uuid.UUID) error {
			// In one transaction: a renewal in between would keep the lease.
			if _, err := tx.Exec(f.Context(), "UPDATE "+f.table+
				" SET locked_until = now() - interval '1 s' WHERE id = $1", id); err != nil {
				return err
			}
			_, err := f.client.Table().In(tx).ReapExpired(f.Context(), 10)
			return err
		},
		"settled with its own token": func(f *fixture, tx workqueue.Tx, id uuid.UUID) error {
			_, err := tx.Exec(f.Context(), "SELECT "+f.table+"_ack(owner_token, ARRAY[id]) FROM "+f.table+
				" WHERE id = $1", id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recordWithoutALease(t, lose)
		})
	}
}

func recordWithoutALease(t *testing.T, lose func(*fixture, workqueue.Tx, uuid.UUID) error) {
	f := newJobs(t)
	running, taken, tried := make(chan uuid.UUID), make(chan struct{}), make(chan map[string]error, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		if job.Attempt > 1 {
			return nil
		}
		running <- job.ID
		<-taken
		ctx = context.WithoutCancel(ctx)
		_, step := jobs.Step(ctx, job, "first", func(context.Context) (int, error) { return 1, nil })
		_, stepTx := jobs.StepTx(ctx, job, "second", func(context.Context, pgx.Tx) (int, error) { return 1, nil })
		tried <- map[string]error{
			"progress": job.SetProgress(ctx, 50, ""), "output": job.Output(ctx, 1), "step": step,
			"step in a transaction": stepTx,
			"tx":                    job.Tx(ctx, func(pgx.Tx) error { return nil }),
		}
		return nil
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	f.enqueue(mail{}, jobs.Insert{Retry: atOnce})
	id := receive(t, running)
	f.inTx(func(tx workqueue.Tx) error { return lose(f, tx, id) })
	close(taken)
	for name, err := range receive(t, tried) {
		if !errors.Is(err, workqueue.ErrLeaseLost) {
			t.Errorf("%s: error %v, want ErrLeaseLost", name, err)
		}
	}
	info := f.await(id, workqueue.Done)
	equal(t, "progress and output", info.Progress == nil && info.Output == nil, true)
	equal(t, "steps", ask[int](f, "SELECT count(*) FROM "+f.table+"_step"), 0)
}

func TestBadRecordsAreRefused(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	tried := make(chan map[string]error, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		_, step := jobs.Step(ctx, job, "", func(context.Context) (int, error) { return 1, nil })
		tried <- map[string]error{
			"progress is -1 per cent":  job.SetProgress(ctx, -1, ""),
			"progress is 101 per cent": job.SetProgress(ctx, 101, ""),
			"note has 1025 bytes":      job.SetProgress(ctx, 1, strings.Repeat("x", 1025)),
			"note has a NUL byte":      job.SetProgress(ctx, 1, "\x00"),
			"output of type chan int":  job.Output(ctx, make(chan int)),
			"output has 1048579 bytes": job.Output(ctx, strings.Repeat("x", 1<<20+1)),
			"step is empty":            step,
		}
		return nil
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}).ID
	for want, err := range receive(t, tried) {
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f.await(id, workqueue.Done)
}

func TestStepsAreDoneOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.exec("CREATE TABLE booked (seat int)")
	var charged atomic.Int32
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		receipt, err := jobs.Step(ctx, job, "charge", func(context.Context) (string, error) {
			return fmt.Sprint("receipt ", charged.Add(1)), nil
		})
		if err != nil {
			return err
		}
		seat, err := jobs.StepTx(ctx, job, "book", func(ctx context.Context, tx pgx.Tx) (seat int, err error) {
			err = tx.QueryRow(ctx, "INSERT INTO booked SELECT count(*) + 1 FROM booked RETURNING seat").Scan(&seat)
			if err == nil && job.Attempt == 1 {
				err = errors.New("the first booking is undone")
			}
			return seat, err
		})
		if err != nil {
			return err
		}
		if job.Attempt < 4 {
			return errors.New("the printer is out of paper")
		}
		return job.Output(ctx, fmt.Sprintf("%s, seat %d", receipt, seat))
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}, jobs.Insert{Retry: atOnce}).ID
	info := f.await(id, workqueue.Done)
	var output string
	f.ok(f.client.DecodeOutput(t.Context(), info, &output))
	equal(t, "output", output, "receipt 1, seat 1")
	equal(t, "charged", charged.Load(), 1)
	equal(t, "booked", ask[int](f, "SELECT count(*) FROM booked"), 1)

	f.exec("DELETE FROM "+f.table+" WHERE id = $1", id)
	equal(t, "records of a deleted job", ask[int](f, fmt.Sprintf("SELECT (SELECT count(*) FROM %[1]s_step) + (SELECT "+
		"count(*) FROM %[1]s_attempt)", f.table)), 0)
}

// A step may run twice in an attempt, here in two goroutines of the handler. Its effect still happens once, and both
// calls return the recorded result.
func TestAStepThatRunsTwiceInAnAttemptHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.exec("CREATE TABLE effects (run integer)")
	var results [2]int
	var errs [2]error
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		var both, running sync.WaitGroup
		running.Add(2)
		for i := range results {
			both.Go(func() {
				results[i], errs[i] = jobs.StepTx(ctx, job, "pay", func(ctx context.Context, tx pgx.Tx) (int, error) {
					running.Done()
					running.Wait() // until both run: neither is recorded yet
					_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", i)
					return i, err
				})
			})
		}
		both.Wait()
		return errors.Join(errs[:]...)
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	f.await(f.enqueue(mail{"a"}).ID, workqueue.Done)
	equal(t, "effects", ask[int](f, "SELECT count(*) FROM effects"), 1)
	equal(t, "the first result", results[0], ask[int](f, "SELECT run FROM effects"))
	equal(t, "the second result", results[1], results[0])
}

// A test of a handler may make a job by hand. It has args and no row, so nothing can be recorded for it.
func TestAJobMadeByATestRecordsNothing(t *testing.T) {
	t.Parallel()
	job := &jobs.Job[mail]{Delivery: &jobs.Delivery{Attempt: 1}, Args: mail{To: "ann"}}
	for _, err := range []error{
		job.SetProgress(t.Context(), 1, ""), job.Output(t.Context(), 1),
		job.Tx(t.Context(), func(pgx.Tx) error { return nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), "comes from no worker") {
			t.Errorf("error %v", err)
		}
	}
}
