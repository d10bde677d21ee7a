package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// trace returns the work of a handler, which writes one row in the transaction that settles the job.
func trace(ctx context.Context, id uuid.UUID) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effect (job_id) VALUES ($1)", id)
		return err
	}
}

// diamond returns a workflow in which b and c depend on a, and d depends on b and c.
func diamond() *jobs.Workflow {
	w := jobs.NewWorkflow("diamond")
	a := w.Task("a", jobs.Insert{Args: part{1}})
	b := w.Task("b", jobs.Insert{Args: part{2}}, jobs.After(a))
	c := w.Task("c", jobs.Insert{Args: part{3}}, jobs.After(a))
	w.Task("d", jobs.Insert{Args: part{4}}, jobs.After(b, c))
	return w
}

func TestATaskRunsWhenAllItsDependenciesAreDone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	w := diamond()
	w.OnComplete, w.OnFail = noticeOf("done"), noticeOf("failed")
	s := f.start(w)
	id := s.Tasks
	f.wantTasks(s.ID, "pending: a ready, b waits, c waits, d waits")
	f.ack(id["a"])
	f.wantTasks(s.ID, "pending: a done, b ready, c ready, d waits")
	f.ack(id["c"])
	f.wantTasks(s.ID, "pending: a done, b ready, c done, d waits")
	f.ack(id["b"])
	f.wantTasks(s.ID, "pending: a done, b done, c done, d ready")
	f.ack(id["d"])
	f.wantTasks(s.ID, "completed: a done, b done, c done, d done")
	equal(t, "on complete", f.fate(s.OnComplete), "ready")
	equal(t, "on fail", f.fate(s.OnFail), "unneeded")
	state := f.workflow(s.ID)
	equal(t, "label", state.Label, "diamond")
	equal(t, "counts", fmt.Sprint(state.Expected, state.Succeeded, state.Failed), "4 4 0")
}

func TestTasksReadTheOutputsOfTheirDependencies(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	result, all := make(chan int, 1), make(chan map[string]int, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		inputs, err := jobs.Outputs[int](ctx, job)
		if err != nil {
			return err
		}
		sum := job.Args.N
		for _, n := range inputs {
			sum += n
		}
		if job.TaskName() == "d" {
			b, err := jobs.OutputOf[int](ctx, job, "b")
			if err != nil {
				return err
			}
			if _, err := jobs.OutputOf[int](ctx, job, "a"); !errors.Is(err, workqueue.ErrNotFound) {
				t.Errorf("the output of a task that is not a dependency: %v", err)
			}
			result <- b
		}
		return job.Output(ctx, sum)
	}, jobs.KindOptions[part]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[notice]) error {
		outputs, err := jobs.Outputs[int](ctx, job)
		all <- outputs
		return err
	}, jobs.KindOptions[notice]{})
	w := diamond()
	w.OnComplete = noticeOf("done")
	f.work(jobs.WorkerOptions{})
	s := f.start(w)
	equal(t, "what d read of b", receive(t, result), 3)
	if got, want := receive(t, all), (map[string]int{"a": 1, "b": 3, "c": 4, "d": 11}); !maps.Equal(got, want) {
		t.Errorf("what the end of the workflow read: %v, want %v", got, want)
	}
	f.await(s.OnComplete, workqueue.Done)
}

func TestADependencyMayHaveNoOutput(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	got := make(chan error, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error {
		if job.TaskName() == "b" {
			_, err := jobs.OutputOf[int](ctx, job, "a")
			got <- err
		}
		return nil
	}, jobs.KindOptions[part]{})
	w := jobs.NewWorkflow("")
	w.Task("b", jobs.Insert{Args: part{}}, jobs.After(w.Task("a", jobs.Insert{Args: part{}})))
	f.work(jobs.WorkerOptions{})
	f.start(w)
	if err := receive(t, got); !errors.Is(err, jobs.ErrNoOutput) {
		t.Errorf("error %v, want ErrNoOutput", err)
	}
}

func TestAJobKnowsItsWorkflow(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	type place struct {
		workflow uuid.UUID
		task     string
		waited   int
	}
	got := make(chan place, 3)
	where := func(ctx context.Context, d *jobs.Delivery) error {
		dependencies, err := d.Dependencies(ctx)
		got <- place{d.WorkflowID(), d.TaskName(), len(dependencies)}
		return err
	}
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[part]) error { return where(ctx, job.Delivery) },
		jobs.KindOptions[part]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[notice]) error { return where(ctx, job.Delivery) },
		jobs.KindOptions[notice]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error { return where(ctx, job.Delivery) },
		jobs.KindOptions[mail]{})
	w := jobs.NewWorkflow("one")
	w.Task("a", jobs.Insert{Args: part{}})
	w.OnComplete = noticeOf("done")
	f.work(jobs.WorkerOptions{})
	s := f.start(w)
	equal(t, "task", receive(t, got), place{s.ID, "a", 0})
	equal(t, "continuation", receive(t, got), place{s.ID, "", 1})
	f.enqueue(mail{})
	equal(t, "other job", receive(t, got), place{})
}

func TestNothingIsLeftOfARolledBackWorkflow(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	undo := errors.New("roll back")
	err := f.try(func(tx workqueue.Tx) error {
		w := diamond()
		w.OnComplete = noticeOf("done")
		_, err := f.client.StartWorkflow(f.Context(), tx, w)
		return errors.Join(err, undo)
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	for _, table := range []string{"jobs", "jobs_join", "jobs_join_member"} {
		equal(t, table, ask[int](f, "SELECT count(*) FROM "+table), 0)
	}
}

func TestTwoWorkflowsOfOnePlanAreApart(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	w := diamond()
	one, two := f.start(w), f.start(w)
	f.ack(one.Tasks["a"])
	f.fail(two.Tasks["a"])
	f.wantTasks(one.ID, "pending: a done, b ready, c ready, d waits")
	f.wantTasks(two.ID, "failed: a failed, b cancelled, c cancelled, d cancelled")
	var labelled []join.State
	f.inTx(func(tx workqueue.Tx) (err error) {
		labelled, err = f.client.Joins().List(f.Context(), tx, join.ListOptions{Label: "diamond"})
		return err
	})
	equal(t, "workflows of that name", len(labelled), 2)
}

func TestTasksMayBeNamedBeforeTheyAreAdded(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	w := jobs.NewWorkflow("")
	w.Task("last", jobs.Insert{Args: part{}}, jobs.AfterNamed("first", "first"))
	w.Task("first", jobs.Insert{Args: part{}})
	s := f.start(w)
	f.wantTasks(s.ID, "pending: last waits, first ready")
	f.ack(s.Tasks["first"])
	f.wantTasks(s.ID, "pending: last ready, first done")
}

func TestTasksHaveOptionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	own := map[string]string{"tenant": "7"}
	w := jobs.NewWorkflow("")
	a := w.Task("a", jobs.Insert{Args: part{}, Queue: "slow", Headers: own})
	w.Task("b", jobs.Insert{Args: part{}, ScheduledAt: time.Now().Add(time.Hour)}, jobs.After(a))
	s := f.start(w)
	info := f.get(s.Tasks["a"])
	equal(t, "queue", info.Queue, "slow")
	equal(t, "header", info.Headers["tenant"], "7")
	equal(t, "the caller's headers", len(own), 1)
	f.exec("UPDATE " + f.table + " SET queue = 'default'")
	f.ack(s.Tasks["a"])
	if info := f.get(s.Tasks["b"]); info.Waiting || time.Until(info.DueAt) < 50*time.Minute {
		t.Errorf("waits %v, due in %v: want to be released and due in an hour", info.Waiting, time.Until(info.DueAt))
	}
}

func TestALongChainRunsInOrder(t *testing.T) {
	t.Parallel()
	links := pgtest.Size(60, 120)
	f := newJobs(t)
	f.doParts()
	f.work(jobs.WorkerOptions{})
	w := jobs.NewWorkflow("chain")
	var last *jobs.Task
	for n := range links {
		var options []jobs.TaskOption
		if last != nil {
			options = append(options, jobs.After(last))
		}
		last = w.Task(fmt.Sprint(n), jobs.Insert{Args: part{n}}, options...)
	}
	s := f.start(w)
	f.awaitJoin(s.ID, join.Completed)
	got := ask[[]uuid.UUID](f, "SELECT array_agg(job_id ORDER BY at) FROM effect")
	for n, id := range got {
		if id != s.Tasks[fmt.Sprint(n)] {
			t.Fatalf("task %d ran as the %d-th", slices.Index(got, s.Tasks[fmt.Sprint(n)]), n)
		}
	}
	equal(t, "effects", len(got), links)
}

func TestAWideFanIn(t *testing.T) {
	t.Parallel()
	width := pgtest.Size(200, 1000)
	f := newJobs(t)
	f.doParts()
	w := jobs.NewWorkflow("wide")
	first := w.Task("first", jobs.Insert{Args: part{}})
	var middle []*jobs.Task
	for n := range width {
		middle = append(middle, w.Task(fmt.Sprint(n), jobs.Insert{Args: part{n}}, jobs.After(first)))
	}
	w.Task("last", jobs.Insert{Args: part{}}, jobs.After(middle...))
	s := f.start(w)
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	f.awaitJoin(s.ID, join.Completed)
	equal(t, "effects", ask[int](f, "SELECT count(DISTINCT job_id) FROM effect"), width+2)
	equal(t, "effects", ask[int](f, "SELECT count(*) FROM effect"), width+2)
	equal(t, "the last one", ask[uuid.UUID](f, "SELECT job_id FROM effect ORDER BY at DESC LIMIT 1"), s.Tasks["last"])
}

// Reading a workflow costs in proportion to its own tasks, however many other jobs there are.
func TestReadingAWorkflowReadsNoOtherJobs(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	others := make([]jobs.Insert, 5000)
	for i := range others {
		others[i].Args = report{Month: i}
	}
	f.many(others...)
	s := f.start(diamond())
	f.exec("ANALYZE")
	f.inTx(func(tx workqueue.Tx) error {
		scans := func() (n int) {
			f.ok(tx.Query(f.Context(), func(scan func(...any) error) error { return scan(&n) },
				"SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_xact_user_tables WHERE relid = $1::text::regclass",
				f.table))
			return n
		}
		before := scans()
		_, err := f.client.Workflow(f.Context(), tx, s.ID)
		f.ok(err)
		equal(t, "sequential scans by Workflow", scans()-before, 0)
		_, err = f.client.CancelWorkflow(f.Context(), tx, s.ID, "")
		equal(t, "sequential scans by CancelWorkflow", scans()-before, 0)
		return err
	})
}
