package jobs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

func TestWorkflowsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[part]{})
	jobs.Declare(f.kinds, jobs.KindOptions[notice]{})
	jobs.Declare(f.kinds, jobs.KindOptions[report]{Unique: &jobs.Unique{Key: "only"}})
	elsewhere := jobs.NewWorkflow("").Task("x", jobs.Insert{Args: part{}})
	for name, c := range map[string]struct {
		build func(w *jobs.Workflow)
		want  string
	}{
		"no tasks":      {func(*jobs.Workflow) {}, "workflow has no tasks"},
		"a task's name": {func(w *jobs.Workflow) { w.Task("", jobs.Insert{Args: part{}}) }, "task name is empty"},
		"a long name": {func(w *jobs.Workflow) { w.Task(strings.Repeat("x", 256), jobs.Insert{Args: part{}}) },
			"task name has 256 bytes"},
		"a NUL": {func(w *jobs.Workflow) { w.Task("a\x00", jobs.Insert{Args: part{}}) }, "task name"},
		"a workflow name": {func(w *jobs.Workflow) {
			w.Name = strings.Repeat("x", 256)
			w.Task("a", jobs.Insert{Args: part{}})
		}, "label has 256 bytes"},
		"two of one name": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}})
			w.Task("a", jobs.Insert{Args: part{}})
		}, `task name "a" is that of two tasks`},
		"itself": {func(w *jobs.Workflow) { w.Task("a", jobs.Insert{Args: part{}}, jobs.AfterNamed("a")) },
			`workflow has a cycle: "a" → "a"`},
		"a cycle": {func(w *jobs.Workflow) {
			w.Task("start", jobs.Insert{Args: part{}})
			w.Task("a", jobs.Insert{Args: part{}}, jobs.AfterNamed("start", "c"))
			b := w.Task("b", jobs.Insert{Args: part{}}, jobs.AfterNamed("a"))
			c := w.Task("c", jobs.Insert{Args: part{}}, jobs.After(b))
			w.Task("end", jobs.Insert{Args: part{}}, jobs.After(c))
		}, `workflow has a cycle: "a" → "b" → "c" → "a"`},
		"behind a cycle": {func(w *jobs.Workflow) {
			w.Task("end", jobs.Insert{Args: part{}}, jobs.AfterNamed("a"))
			w.Task("a", jobs.Insert{Args: part{}}, jobs.AfterNamed("b"))
			w.Task("b", jobs.Insert{Args: part{}}, jobs.AfterNamed("a"))
		}, `→`},
		"a long cycle": {func(w *jobs.Workflow) {
			for n := range 1000 {
				w.Task(fmt.Sprint(n), jobs.Insert{Args: part{}}, jobs.AfterNamed(fmt.Sprint((n+1)%1000)))
			}
		}, "… (1000 tasks)"},
		"an unknown name": {func(w *jobs.Workflow) { w.Task("a", jobs.Insert{Args: part{}}, jobs.AfterNamed("b")) },
			`After of task "a" has "b", which is no task of the workflow`},
		"a task from elsewhere": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}}, jobs.After(elsewhere))
		}, `After of task "a" has a task that is none of the workflow's`},
		"a nil task": {func(w *jobs.Workflow) { w.Task("a", jobs.Insert{Args: part{}}, jobs.After(nil)) },
			`After of task "a" has a task that is none of the workflow's`},
		"a task's policy": {func(w *jobs.Workflow) { w.Task("a", jobs.Insert{Args: part{}}, jobs.WithPolicy(7)) },
			`task "a": policy is 7`},
		"a policy": {func(w *jobs.Workflow) {
			w.Policy = -1
			w.Task("a", jobs.Insert{Args: part{}})
		}, "policy is -1"},
		"tasks' policy": {func(w *jobs.Workflow) {
			w.TaskPolicy = 3
			w.Task("a", jobs.Insert{Args: part{}})
		}, "policy is 3"},
		"a deadline": {func(w *jobs.Workflow) {
			w.Deadline = time.Unix(1<<40, 0)
			w.Task("a", jobs.Insert{Args: part{}})
		}, "deadline is"},
		"no args": {func(w *jobs.Workflow) { w.Task("a", jobs.Insert{}) }, `task "a": args are nil`},
		"a unique task": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}, Unique: &jobs.Unique{}})
		}, `task "a": Unique is set on a job of a batch or workflow`},
		"a unique kind": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}})
			w.Task("b", jobs.Insert{Args: report{}})
		},
			`task "b": Unique is set on kind "report"`},
		"a task's key": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}, ByKey: keyed.Ordered{}})
		}, `task "a": ordered key is empty`},
		"a task's delay": {func(w *jobs.Workflow) {
			w.Task("ok", jobs.Insert{Args: part{}})
			w.Task("late", jobs.Insert{Args: part{}, Delay: -1}, jobs.AfterNamed("ok"))
		}, `task "late": Delay is`},
		"what comes after success": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}})
			w.OnComplete = &jobs.Insert{}
		}, "OnComplete: args are nil"},
		"what comes after failure": {func(w *jobs.Workflow) {
			w.Task("a", jobs.Insert{Args: part{}})
			w.OnComplete, w.OnFail = noticeOf(""), &jobs.Insert{Args: notice{}, Priority: 9}
		}, "OnFail: priority is 9"},
		"too many tasks": {func(w *jobs.Workflow) {
			for n := range jobs.MaxTasks + 1 {
				w.Task(fmt.Sprint(n), jobs.Insert{Args: part{}})
			}
		}, "workflow has 10001 tasks, at most 10000 are allowed"},
		"too many dependencies": {func(w *jobs.Workflow) {
			var all []*jobs.Task
			for n := range 500 {
				all = append(all, w.Task(fmt.Sprint(n), jobs.Insert{Args: part{}}, jobs.After(all...)))
			}
		}, "workflow has more than 100000 dependencies"},
	} {
		w := jobs.NewWorkflow("")
		c.build(w)
		f.inTx(func(tx workqueue.Tx) error { // it commits: a refusal leaves the transaction usable
			_, err := f.client.StartWorkflow(f.Context(), tx, w)
			if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			}
			return nil
		})
	}
	f.inTx(func(tx workqueue.Tx) error {
		if _, err := f.client.StartWorkflow(f.Context(), tx, nil); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("nil: %v", err)
		}
		return nil
	})
	for _, table := range []string{"jobs", "jobs_join", "jobs_join_member"} {
		equal(t, table, ask[int](f, "SELECT count(*) FROM "+table), 0)
	}
}

// A workflow with the largest number of tasks, in a hundred layers, needs several calls to start its joins.
func TestALargeWorkflowStartsAndFails(t *testing.T) {
	t.Parallel()
	const width = 100
	depth := pgtest.Size(20, jobs.MaxTasks/width)
	f := newJobs(t, anyKind)
	w := jobs.NewWorkflow("large")
	var above []*jobs.Task
	for layer := range depth {
		var tasks []*jobs.Task
		for n := range width {
			tasks = append(tasks, w.Task(fmt.Sprint(layer, "/", n), jobs.Insert{Args: part{n}},
				jobs.After(above[:min(n, 4, len(above))]...)))
		}
		above = tasks
	}
	s := f.start(w)
	equal(t, "tasks", f.workflow(s.ID).Expected, width*depth)
	ready := ask[[]uuid.UUID](f, "SELECT array_agg(id) FROM "+f.table+" WHERE NOT waiting")
	equal(t, "ready", len(ready), width+depth-1) // the first layer, and the first task of each other layer
	f.fail(ready...)
	equal(t, "status", f.workflow(s.ID).Status, join.Failed)
	equal(t, "cancelled", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE cancelled_at IS NOT NULL"),
		width*depth-len(ready))
}
