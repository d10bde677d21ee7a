package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func TestAJobRunsWithItsArgs(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	got := make(chan jobs.Job[mail], 1)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { got <- *job; return nil },
		jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})

	id := f.enqueue(mail{To: "ann"}, jobs.Insert{Headers: map[string]string{"tenant": "7"}}).ID
	job := receive(t, got)
	equal(t, "args", job.Args, mail{To: "ann"})
	equal(t, "id", job.ID, id)
	equal(t, "kind", job.Kind, "mail")
	equal(t, "queue", job.Queue, jobs.DefaultQueue)
	equal(t, "priority", job.Priority, jobs.Normal)
	equal(t, "attempt", job.Attempt, 1)
	equal(t, "header", job.Headers["tenant"], "7")
	f.await(id, workqueue.Done)
}

func TestAPointerMayBeTheArgs(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	got := make(chan string, 1)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[*mail]) error { got <- job.Args.To; return nil },
		jobs.KindOptions[*mail]{})
	f.work(jobs.WorkerOptions{})
	f.enqueue(&mail{To: "bob"})
	equal(t, "to", receive(t, got), "bob")
}

func TestNothingRunsFromARolledBackEnqueue(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	failed := errors.New("roll back")
	err := f.try(func(tx workqueue.Tx) error {
		_, err := f.client.Enqueue(f.Context(), tx, jobs.Insert{Args: mail{}})
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	outcomes := map[string]error{
		"done": nil, "failed": errors.New("no answer"), "permanent": workqueue.Permanent(errors.New("no such address")),
		"snooze": workqueue.Snooze(time.Hour), "cancelled": workqueue.Cancelled("unsubscribed"),
	}
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		if job.Args.To == "panic" {
			panic("oh")
		}
		return outcomes[job.Args.To]
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	for to, want := range map[string]struct {
		status    workqueue.Status
		attempts  int
		lastError string
		cancelled bool
	}{
		"done":      {workqueue.Done, 1, "", false},
		"failed":    {workqueue.Ready, 1, "no answer", false},
		"permanent": {workqueue.Failed, 1, "no such address", false},
		"snooze":    {workqueue.Ready, 0, "", false},
		"cancelled": {workqueue.Failed, 1, "cancelled: unsubscribed", true},
		"panic":     {workqueue.Ready, 1, "panic: oh", false},
	} {
		info := f.attempted(f.enqueue(mail{To: to}).ID)
		equal(t, to+": status", info.Status, want.status)
		equal(t, to+": attempts", info.Attempts, want.attempts)
		equal(t, to+": cancelled", info.CancelledAt != nil, want.cancelled)
		if !strings.Contains(info.LastError, want.lastError) {
			t.Errorf("%s: last error %q, want %q", to, info.LastError, want.lastError)
		}
	}
}

func TestTxSettlesWithTheWrites(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.exec("CREATE TABLE sent (address text)")
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		return job.Tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO sent VALUES ($1)", job.Args.To); err != nil {
				return err
			}
			if err := job.Output(ctx, "sent"); err != nil {
				return err
			}
			switch job.Args.To {
			case "fails":
				return errors.New("too late")
			case "snoozes":
				return workqueue.Snooze(time.Hour)
			case "breaks":
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				return workqueue.Permanent(errors.New("no use"))
			}
			return nil
		})
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	done, failed := f.enqueue(mail{To: "works"}).ID, f.enqueue(mail{To: "fails"}).ID
	snoozed, broken := f.enqueue(mail{To: "snoozes"}).ID, f.enqueue(mail{To: "breaks"}).ID
	info := f.await(done, workqueue.Done)
	var output string
	f.ok(f.client.DecodeOutput(t.Context(), info, &output))
	equal(t, "output", output, "sent")
	if info := f.attempted(failed); info.Output != nil || info.LastError != "too late" {
		t.Errorf("output %q, error %q: want none, and the handler's", info.Output, info.LastError)
	}
	if info := f.attempted(snoozed); string(info.Output) != `"sent"` || info.Status != workqueue.Ready {
		t.Errorf("a snooze commits with what was written: output %q, status %v", info.Output, info.Status)
	}
	if info := f.await(broken, workqueue.Failed); info.Output != nil || info.LastError != "no use" {
		t.Errorf("a transaction that failed: output %q, error %q", info.Output, info.LastError)
	}
	equal(t, "effects", ask[string](f, "SELECT string_agg(address, ',' ORDER BY address) FROM sent"), "snoozes,works")
}

func TestAKindsTimeoutCancelsItsHandlers(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(ctx context.Context, _ *jobs.Job[mail]) error {
		<-ctx.Done()
		return ctx.Err()
	}, jobs.KindOptions[mail]{Timeout: 20 * time.Millisecond})
	jobs.Register(f.kinds, func(ctx context.Context, _ *jobs.Job[report]) error {
		if _, limited := ctx.Deadline(); limited {
			return errors.New("has a deadline")
		}
		return nil
	}, jobs.KindOptions[report]{Timeout: -1})
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{HandlerTimeout: time.Hour}})
	info := f.attempted(f.enqueue(mail{}).ID)
	if want := "job exceeded its timeout of 20ms"; !strings.Contains(info.LastError, want) {
		t.Errorf("last error %q, want %q", info.LastError, want)
	}
	f.await(f.enqueue(report{}).ID, workqueue.Done)
}

// The bound of the kind, or else the worker's, or else that of the timeout, is recorded with the job while it runs.
func TestHowLongJobsMayRun(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	release := make(chan struct{})
	hold := func(context.Context) error { <-release; return nil }
	jobs.Register(f.kinds, func(ctx context.Context, _ *jobs.Job[mail]) error { return hold(ctx) },
		jobs.KindOptions[mail]{RunsWithin: 5 * time.Hour, Timeout: time.Minute})
	jobs.Register(f.kinds, func(ctx context.Context, _ *jobs.Job[report]) error { return hold(ctx) },
		jobs.KindOptions[report]{Timeout: 40 * time.Minute})
	mails, reports := f.enqueue(mail{}).ID, f.enqueue(report{}).ID
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Lease: pgtest.Lease}})
	for id, want := range map[uuid.UUID]string{mails: "18000000000", reports: "4800000000"} {
		f.until("the renewal", func() bool {
			return ask[string](f, "SELECT coalesce(max(split_part(headers ->> 'txwork-running', ' ', 2)), '') FROM jobs "+
				"WHERE id = $1 AND status = 1", id) == want
		})
	}
	close(release)
	f.await(mails, workqueue.Done)
	f.await(reports, workqueue.Done)
}

func TestMiddlewareWrapsFromTheOutside(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	calls := make(chan string, 10)
	named := func(name string) jobs.Middleware {
		return func(next jobs.Handler) jobs.Handler {
			return func(ctx context.Context, d *jobs.Delivery) error {
				calls <- name + " " + d.Kind
				return next(ctx, d)
			}
		}
	}
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error { calls <- "handler"; return nil },
		jobs.KindOptions[mail]{Middleware: []jobs.Middleware{named("third"), named("fourth")}})
	f.work(jobs.WorkerOptions{Middleware: []jobs.Middleware{named("first"), named("second")}})
	f.await(f.enqueue(mail{}).ID, workqueue.Done)
	close(calls)
	equal(t, "calls", strings.Join(slices.Collect(values(calls)), ", "),
		"first mail, second mail, third mail, fourth mail, handler")
}

func values[V any](c <-chan V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

func TestMiddlewareMayReplaceTheResult(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error { return errors.New("no such user") },
		jobs.KindOptions[mail]{})
	giveUp := func(next jobs.Handler) jobs.Handler {
		return func(ctx context.Context, d *jobs.Delivery) error {
			if err := next(ctx, d); err != nil {
				return workqueue.Permanent(err)
			}
			return nil
		}
	}
	f.work(jobs.WorkerOptions{Middleware: []jobs.Middleware{giveUp}})
	f.await(f.enqueue(mail{}).ID, workqueue.Failed)
}

func TestArgsThatDoNotDecodeAreDeadLettersInTheEnd(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	id := f.enqueue(mail{}, jobs.Insert{Retry: atOnce, MaxAttempts: 3}).ID
	f.exec("UPDATE "+f.table+" SET args = '{\"to\": 7}' WHERE id = $1", id)
	f.work(jobs.WorkerOptions{})
	info := f.await(id, workqueue.Failed)
	equal(t, "attempts", info.Attempts, 3)
	equal(t, "args", string(info.Args), `{"to": 7}`)
	if want := `args of kind "mail" do not decode: json: cannot unmarshal number`; !strings.Contains(info.LastError,
		want) {
		t.Errorf("last error %q, want %q", info.LastError, want)
	}
}

func TestAnUnknownKindIsRetriedByPolicy(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error { return nil }, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(report{}, jobs.Insert{Retry: atOnce, MaxAttempts: 2}).ID
	info := f.await(id, workqueue.Failed)
	equal(t, "attempts", info.Attempts, 2)
	equal(t, "last error", info.LastError, `unknown kind: no handler is registered for "report"`)
}

// Many jobs of a kind without a handler here are due before a job that has one.
func TestUnknownKindsAreLeftToThoseWhoKnowThem(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	const crowd = 5000
	inserts := make([]jobs.Insert, crowd)
	for i := range inserts {
		inserts[i].Args = report{Month: i}
	}
	f.many(inserts...)
	known := f.enqueue(mail{}).ID
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	stop := f.work(jobs.WorkerOptions{Unknown: jobs.LeaveUnknown})
	f.await(known, workqueue.Done)
	f.until("all are put back", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE kind = 'report' AND owner_token IS NULL") == 0
	})
	stop()
	equal(t, "attempts", ask[int](f, "SELECT max(attempts) FROM "+f.table+" WHERE kind = 'report' AND status = 0"), 0)
	equal(t, "left", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE kind = 'report' AND status = 0"), crowd)
	const cause = `unknown kind: no handler is registered for "report" since `
	if told := ask[string](f, "SELECT min(last_error) FROM "+f.table+" WHERE kind = 'report'"); !strings.HasPrefix(told,
		cause+"20") {
		t.Errorf("the last error is %q", told)
	}
	// They are due again one after the other, a hundred a second, and not all at once.
	if spread := ask[float64](f, "SELECT extract(epoch FROM max(due_at) - min(due_at))::float8 FROM "+f.table+
		" WHERE kind = 'report'"); spread < crowd/100*0.8 {
		t.Errorf("%d jobs of an unknown kind come again within %.1f s", crowd, spread)
	}
	// Those that have come again say since when they have been put back.
	f.exec("UPDATE "+f.table+" SET due_at = now(), last_error = $1 WHERE id = (SELECT min(id::text)::uuid FROM "+f.table+
		" WHERE kind = 'report')", cause+"2001-01-01T00:00:00Z")
	f.work(jobs.WorkerOptions{Unknown: jobs.LeaveUnknown})
	f.until("one is put back again", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE due_at > now() + interval '1 s' AND last_error LIKE "+
			"'% since 2001-%'") == 1
	})
}

func TestQueuesHaveHandlersOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	release, running := make(chan struct{}), make(chan string, 10)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		running <- job.Queue
		if job.Queue == "slow" {
			<-release
		}
		return nil
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: "slow", Concurrency: 2},
		{Name: "fast", Concurrency: 1}}})
	defer close(release)
	for range 4 {
		f.enqueue(mail{}, jobs.Insert{Queue: "slow"})
	}
	equal(t, "queue", receive(t, running), "slow")
	equal(t, "queue", receive(t, running), "slow")
	f.await(f.enqueue(mail{}, jobs.Insert{Queue: "fast"}).ID, workqueue.Done) // all slow handlers are busy
	other := f.enqueue(mail{}, jobs.Insert{Queue: "other"}).ID
	equal(t, "queue", receive(t, running), "fast")
	equal(t, "more", len(running), 0)
	equal(t, "status of a queue that nobody serves", f.get(other).Status, workqueue.Ready)
}

func TestUrgentJobsComeFirst(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	order := make(chan jobs.Priority, 3)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { order <- job.Priority; return nil },
		jobs.KindOptions[mail]{})
	for _, p := range []jobs.Priority{jobs.Low, jobs.Normal, jobs.High} {
		f.enqueue(mail{}, jobs.Insert{Priority: p})
	}
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	for _, want := range []jobs.Priority{jobs.High, jobs.Normal, jobs.Low} {
		equal(t, "priority", receive(t, order), want)
	}
}

// Every urgent job enqueues the next one before it is done, so there are always urgent jobs that are ready.
func TestNoJobStarvesUnderUrgentOnes(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		return pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
			_, err := f.client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: job.Args, Priority: jobs.High})
			return err
		})
	}, jobs.KindOptions[mail]{})
	jobs.Register(f.kinds, nothing[report], jobs.KindOptions[report]{})
	for range 50 {
		f.enqueue(mail{}, jobs.Insert{Priority: jobs.High})
	}
	low := f.enqueue(report{}, jobs.Insert{Priority: jobs.Low}).ID
	normal := f.enqueue(report{}).ID
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 2, ClaimLimit: 2}})
	f.await(low, workqueue.Done)
	f.await(normal, workqueue.Done)
}

func TestAGracefulStopFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	running, release := make(chan uuid.UUID, 1), make(chan struct{})
	var finished atomic.Int32
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		running <- job.ID
		<-release
		finished.Add(1)
		return nil
	}, jobs.KindOptions[mail]{})
	stop := f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}).ID
	receive(t, running)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(release)
	receive(t, stopped)
	equal(t, "finished", finished.Load(), 1)
	equal(t, "status", f.get(id).Status, workqueue.Done)
}

func TestRunningAndWaitingJobsAreCancelled(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	running, cause := make(chan struct{}, 1), make(chan error, 1)
	jobs.Register(f.kinds, func(ctx context.Context, _ *jobs.Job[mail]) error {
		running <- struct{}{}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{})
	id := f.enqueue(mail{}).ID
	receive(t, running)
	later := f.enqueue(mail{}, jobs.Insert{Delay: time.Hour}).ID

	start := time.Now()
	f.inTx(func(tx workqueue.Tx) error {
		changed, err := f.client.Cancel(f.Context(), tx, "order withdrawn", id, later)
		equal(t, "changed", len(changed), 2)
		return err
	})
	if err := receive(t, cause); !errors.Is(err, workqueue.ErrRowCancelled) {
		t.Errorf("cause %v", err)
	}
	t.Logf("the running handler was told after %v", time.Since(start))
	for _, id := range []uuid.UUID{id, later} {
		info := f.await(id, workqueue.Failed)
		equal(t, "last error", info.LastError, "cancelled: order withdrawn")
		equal(t, "cancelled", info.CancelledAt != nil, true)
	}
	equal(t, "history", fmt.Sprint(outcomes(f.history(id)), outcomes(f.history(later))), "[cancelled] []")
}

func outcomes(list []jobs.Attempt) (names []string) {
	for _, a := range list {
		names = append(names, string(a.Outcome))
	}
	return names
}

func TestErrorsAreRedactedBeforeTheyAreStored(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(context.Context,
		*jobs.Job[mail]) error {
		return errors.New("password hunter2 refused")
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{
		Redact: func(_ context.Context, message string) string { return strings.ReplaceAll(message, "hunter2", "***") },
	}})
	info := f.attempted(f.enqueue(mail{}).ID)
	equal(t, "last error", info.LastError, "password *** refused")
	equal(t, "history", f.history(info.ID)[0].Error, "password *** refused")
}

// A job has no destination that rests. If what it needs cannot be reached, it keeps its attempts, and runs again after
// ten seconds at most.
func TestADestinationOfAJobIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	var away atomic.Bool
	away.Store(true)
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error {
		if away.Load() {
			return workqueue.Unavailable(errors.New("connection refused"))
		}
		return nil
	}, jobs.KindOptions[mail]{})
	id := f.enqueue(mail{To: "a"}).ID
	f.work(jobs.WorkerOptions{})
	f.until("it waits", func() bool {
		return ask[bool](f, "SELECT status = 0 AND attempts = 0 AND last_error LIKE '%refused%' AND due_at BETWEEN "+
			"clock_timestamp() + interval '1 s' AND clock_timestamp() + interval '10 s' FROM "+f.table)
	})
	away.Store(false)
	f.exec("UPDATE " + f.table + " SET due_at = now()")
	if job := f.await(id, workqueue.Done); job.Attempts != 1 {
		t.Errorf("%+v", job)
	}
}
