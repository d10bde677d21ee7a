package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// A reading is what a handler could read of the jobs that its job has waited for.
type reading struct {
	tasks, outputs            int
	ofTasks, ofOutputs, ofOne error
}

// readBack registers a handler of notices, which reads everything, and fails if something is missing. Parts do nothing.
func (f *fixture) readBack() chan reading {
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[part]) error { return nil }, jobs.KindOptions[part]{})
	readings := make(chan reading, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[notice]) error {
		var r reading
		var tasks []jobs.TaskInfo
		var outputs map[string]int
		tasks, r.ofTasks = job.Dependencies(ctx)
		outputs, r.ofOutputs = jobs.Outputs[int](ctx, job)
		_, r.ofOne = jobs.OutputOf[int](ctx, job, "one")
		r.tasks, r.outputs = len(tasks), len(outputs)
		readings <- r
		return errors.Join(r.ofTasks, r.ofOutputs)
	}, jobs.KindOptions[notice]{})
	return readings
}

// A job that reads what it has waited for learns that rows are gone, whoever deleted them.
func TestAJobIsToldOfMissingDependencies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delete string // with the schema for %[1]s
		left   int
	}{
		"purge":    {"SELECT %[1]s.jobs_purge(100, '0')", 0},
		"maintain": {"SELECT %[1]s.jobs_maintain_step('purge_done', 100, '0', '0', '{}', NULL)", 0},
		"by hand": {"DELETE FROM %[1]s.jobs WHERE id IN (SELECT id FROM %[1]s.jobs WHERE kind = 'part' LIMIT 1)",
			2},
		"purge of joins":  {"SELECT %[1]s.jobs_join_purge('0', 100), %[1]s.jobs_purge(100, '0')", 0},
		"joins are gone":  {"TRUNCATE %[1]s.jobs_join, %[1]s.jobs_join_member", 0},
		"memberships are": {"TRUNCATE %[1]s.jobs_join_member", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			readings := f.readBack()
			s := f.startBatch(jobs.Batch{Jobs: []jobs.Insert{{Args: part{1}}, {Args: part{2}}, {Args: part{3}}},
				OnComplete: noticeOf("done")})
			f.ack(s.Jobs...)
			f.exec(fmt.Sprintf(c.delete, f.Schema))
			f.work(jobs.WorkerOptions{})
			r := receive(t, readings)
			equal(t, "tasks", r.tasks, c.left)
			for what, err := range map[string]error{"Dependencies": r.ofTasks, "Outputs": r.ofOutputs,
				"OutputOf": r.ofOne} {
				var missing *jobs.MissingError
				if !errors.As(err, &missing) || !errors.Is(err, workqueue.ErrNotFound) {
					t.Fatalf("%s: error %v, want a MissingError", what, err)
				} else if missing.Job != s.OnComplete || missing.Known != 3 || missing.Missing != 3-c.left {
					t.Fatalf("%s: %+v", what, *missing)
				}
			}
			f.until("the job waits for its next attempt", func() bool {
				return strings.Contains(f.get(s.OnComplete).LastError, fmt.Sprintf("%d of the 3 jobs", 3-c.left))
			})
		})
	}
}

// A task is told, too, even if its join is gone, and the error names the jobs that are missing.
func TestATaskIsToldOfMissingDependencies(t *testing.T) {
	t.Parallel()
	for name, destroy := range map[string]string{"jobs": "DELETE FROM %[1]s.jobs WHERE completed_at IS NOT NULL",
		"joins": "TRUNCATE %[1]s.jobs_join"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			readings := f.readBack()
			w := jobs.NewWorkflow("")
			one, two := w.Task("one", jobs.Insert{Args: part{}}), w.Task("two", jobs.Insert{Args: part{}})
			w.Task("last", jobs.Insert{Args: notice{}}, jobs.After(one, two))
			s := f.start(w)
			f.ack(s.Tasks["one"], s.Tasks["two"])
			f.exec(fmt.Sprintf(destroy, f.Schema))
			f.work(jobs.WorkerOptions{})
			r := receive(t, readings)
			var missing *jobs.MissingError
			if !errors.As(r.ofTasks, &missing) || missing.Known != 2 || missing.Missing != 2 {
				t.Fatalf("error %v, want a MissingError about both tasks", r.ofTasks)
			}
			if name == "jobs" {
				equal(t, "the missing jobs", uuids(missing.IDs...), uuids(s.Tasks["one"], s.Tasks["two"]))
				equal(t, "missing tasks of the workflow", f.workflow(s.ID).Missing, 2)
			}
		})
	}
}

func uuids(list ...uuid.UUID) string {
	var text []string
	for _, id := range list {
		text = append(text, id.String())
	}
	return strings.Join(text, " ")
}
