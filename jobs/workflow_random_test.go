package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// node is the args of a task of a random graph: what it does, and how many dependencies it has.
type node struct {
	Does string
	Deps int
}

func (node) Kind() string { return "node" }

// Behaviours of a node.
const (
	succeeds = "succeeds"
	stumbles = "stumbles" // its first attempt fails
	fails    = "fails"
)

// A randomGraph is a workflow with its expected result.
type randomGraph struct {
	*jobs.Workflow
	ends    map[string]workqueue.Status
	runs    map[string]bool
	failure bool
}

func newRandomGraph(r *rand.Rand) randomGraph {
	g := randomGraph{Workflow: jobs.NewWorkflow("random"), ends: map[string]workqueue.Status{}, runs: map[string]bool{}}
	g.OnComplete, g.OnFail = noticeOf("complete"), noticeOf("fail")
	names := r.Perm(3 + r.IntN(10)) // so that the ids are not in the order of the graph
	density := r.Float64() * 0.6
	for i := range names {
		var deps []string
		broken := false
		for _, d := range names[:i] {
			if r.Float64() < density {
				deps = append(deps, fmt.Sprint(d))
				broken = broken || g.ends[fmt.Sprint(d)] == workqueue.Failed
			}
		}
		does := []string{succeeds, succeeds, succeeds, stumbles, fails}[r.IntN(5)]
		policy := []join.Policy{join.WaitAll, join.WaitAll, join.FailFast, join.AnyOutcome}[r.IntN(4)]
		g.add(fmt.Sprint(names[i]), node{Does: does, Deps: len(deps)}, policy, deps, !broken ||
			policy == join.AnyOutcome)
	}
	return g
}

func (g *randomGraph) add(name string, args node, policy join.Policy, deps []string, runs bool) {
	g.Task(name, jobs.Insert{Args: args}, jobs.AfterNamed(deps...), jobs.WithPolicy(policy))
	g.runs[name], g.ends[name] = runs, workqueue.Done
	if !runs || args.Does == fails {
		g.ends[name], g.failure = workqueue.Failed, true
	}
}

// doNodes registers the handler of random graphs. It checks the dependencies of its task, and does its work in the
// transaction that settles the task.
func (f *fixture) doNodes() {
	f.exec("CREATE TABLE effect (job_id uuid, kind text)")
	var stumbled sync.Map
	effect := func(ctx context.Context, d *jobs.Delivery, result error) error {
		return d.Tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1, $2)", d.ID, d.Kind); err != nil {
				return err
			}
			return result
		})
	}
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[node]) error {
		dependencies, err := job.Dependencies(ctx)
		if err != nil {
			return err
		}
		if len(dependencies) != job.Args.Deps {
			f.Errorf("task %s: %d dependencies, want %d", job.TaskName(), len(dependencies), job.Args.Deps)
		}
		for _, d := range dependencies {
			if d.CompletedAt == nil {
				f.Errorf("task %s runs, and %s is %v", job.TaskName(), d.Name, d.Status)
			}
		}
		switch _, before := stumbled.LoadOrStore(job.ID, true); {
		case job.Args.Does == fails:
			return workqueue.Permanent(effect(ctx, job.Delivery, errors.New("no good")))
		case job.Args.Does == stumbles && !before:
			return effect(ctx, job.Delivery, errors.New("not yet"))
		}
		return effect(ctx, job.Delivery, nil)
	}, jobs.KindOptions[node]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[notice]) error {
		return effect(ctx, job.Delivery, nil)
	}, jobs.KindOptions[notice]{})
}

// dieNowAndThen simulates processes that are killed, until the test ends: it claims jobs, lets their leases expire, and
// reaps them.
func (f *fixture) dieNowAndThen() {
	ctx, stop := context.WithCancel(context.Background())
	var victims sync.WaitGroup
	victims.Go(func() {
		for ctx.Err() == nil {
			f.queue().Claim(ctx, workqueue.NewOwnerToken(), time.Second, 2, jobs.DefaultQueue, int16(jobs.Normal))
			f.queue().ReapExpired(ctx, 100)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	f.Cleanup(func() { stop(); victims.Wait() })
}

func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	graphs := pgtest.Size(25, 100)
	f := newJobs(t, func(o *jobs.Options) { o.Retry, o.MaxAttempts = atOnce, 1000 })
	f.doNodes()
	f.dieNowAndThen()
	for range 3 {
		f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 10}})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	plans, started := make([]randomGraph, graphs), make([]jobs.StartedWorkflow, graphs)
	for i := range plans {
		plans[i] = newRandomGraph(r)
		started[i] = f.start(plans[i].Workflow)
	}
	f.until("all workflows have ended, and what continues them", func() bool {
		return ask[bool](f, "SELECT NOT EXISTS (SELECT FROM jobs_join WHERE status = 0) AND NOT EXISTS (SELECT FROM "+
			"jobs WHERE completed_at IS NULL)")
	})
	for i, g := range plans {
		f.wantGraph(g, started[i])
	}
}

func (f *fixture) wantGraph(g randomGraph, s jobs.StartedWorkflow) {
	f.Helper()
	w := f.workflow(s.ID)
	for _, task := range w.Tasks {
		equal(f, "status of task "+task.Name, task.Status, g.ends[task.Name])
		equal(f, "ran: task "+task.Name, task.Attempts > 0, g.runs[task.Name])
		f.wantEffects(task.ID, g.ends[task.Name] == workqueue.Done)
	}
	equal(f, "tasks", len(w.Tasks), len(g.ends))
	equal(f, "failed", w.Status == join.Failed, g.failure)
	f.wantEffects(s.OnComplete, !g.failure)
	f.wantEffects(s.OnFail, g.failure)
}

// wantEffects checks that every done task has had its effect once, and that no other task has had one.
func (f *fixture) wantEffects(id uuid.UUID, done bool) {
	f.Helper()
	want := 0
	if done {
		want = 1
	}
	equal(f, "effects of "+id.String(), ask[int](f, "SELECT count(*) FROM effect WHERE job_id = $1", id), want)
}
