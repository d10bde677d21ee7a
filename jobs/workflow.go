package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/join"
)

// Limits of a workflow.
const (
	// MaxTasks is how many tasks a workflow may have.
	MaxTasks = 10_000
	// MaxDependencies is how many dependencies the tasks of a workflow may have together.
	MaxDependencies = 100_000
	// MaxTaskName is the largest length of a task's name in bytes.
	MaxTaskName = 255
)

// Headers of a task.
const (
	workflowHeader = "txwork-workflow" // the workflow's id
	taskHeader     = "txwork-task"     // the task's name
)

// A Workflow is a set of jobs that depend on each other: its tasks form a directed acyclic graph. Build it with
// [Workflow.Task], and start it with [Client.StartWorkflow], as often as you like; starting does not change it.
// Building is not safe for concurrent use.
//
// Each dependent task is the continuation of a join over its dependencies, see package join. One more join, whose id is
// the workflow's, has all tasks as its members.
type Workflow struct {
	// Name is for people and for [join.ListOptions], as the label of the workflow's join: at most [join.MaxLabel]
	// bytes. It may be empty, and any number of workflows may share it.
	Name string

	// TaskPolicy is the policy of tasks that set none, see [WithPolicy]. Default: [join.WaitAll].
	TaskPolicy join.Policy

	// OnComplete runs when the workflow completes, and OnFail when it fails. Both are optional. They find the workflow
	// with [Delivery.WorkflowID] and its tasks with [Delivery.Dependencies]. The one that does not run ends as
	// cancelled if it is OnComplete, and as done if it is OnFail.
	OnComplete, OnFail *Insert

	// Policy says when the workflow ends and how. With [join.WaitAll], the default, it ends when all tasks have ended,
	// and completes if all have succeeded. With [join.FailFast] it fails as soon as a task fails, and the other tasks
	// go on. With [join.AnyOutcome] it completes when all tasks have ended, whatever their outcomes.
	Policy join.Policy

	// Deadline fails the workflow if it is still pending then, by the database's clock. Its tasks go on; to stop them,
	// call [Client.CancelWorkflow] in OnFail. Default: none.
	Deadline time.Time

	tasks []*Task
}

// NewWorkflow makes a workflow without tasks.
func NewWorkflow(name string) *Workflow { return &Workflow{Name: name} }

// A Task is a job of a [Workflow]. Pass it to [After] to make it a dependency of another task.
type Task struct {
	workflow *Workflow
	name     string
	insert   Insert
	policy   *join.Policy
	after    []*Task
	named    []string
}

// A TaskOption is an option of [Workflow.Task].
type TaskOption func(*Task)

// Task adds a task. Its name is unique in the workflow, and has 1 to [MaxTaskName] bytes. A task without dependencies
// may run as soon as the workflow has been started. [Client.StartWorkflow] reports invalid tasks.
//
// ScheduledAt and Delay of the job count from the workflow's start; a task whose dependencies take longer runs as soon
// as they have ended. With ByKey, the task enters its key when its dependencies have ended. A task cannot be Unique, by
// itself or by its kind, because it is always a job of its own.
func (w *Workflow) Task(name string, job Insert, options ...TaskOption) *Task {
	t := &Task{workflow: w, name: name, insert: job}
	for _, option := range options {
		option(t)
	}
	w.tasks = append(w.tasks, t)
	return t
}

// After makes a task depend on other tasks of its workflow. By default it runs when they have succeeded, see
// [WithPolicy].
func After(tasks ...*Task) TaskOption {
	return func(t *Task) { t.after = append(t.after, tasks...) }
}

// AfterNamed is [After] by the names of tasks. The tasks may be added later.
func AfterNamed(names ...string) TaskOption {
	return func(t *Task) { t.named = append(t.named, names...) }
}

// WithPolicy says what happens to a task when one of its dependencies fails or is cancelled. Default: the workflow's
// TaskPolicy.
//
//   - [join.WaitAll]: when all dependencies have ended, the task is cancelled, and so are the tasks that depend on it,
//     by their own policies.
//   - [join.FailFast]: the same, but at once: other dependencies may still be running.
//   - [join.AnyOutcome]: the task runs when all dependencies have ended, whatever their outcomes, which
//     [Delivery.Dependencies] returns.
func WithPolicy(p join.Policy) TaskOption {
	return func(t *Task) { t.policy = &p }
}

// A StartedWorkflow holds the ids of a workflow and of its tasks.
type StartedWorkflow struct {
	ID                 uuid.UUID
	Tasks              map[string]uuid.UUID // by name
	OnComplete, OnFail uuid.UUID            // zero: none
}

// policyOf returns the task's own policy, or else the workflow's TaskPolicy.
func (w *Workflow) policyOf(t *Task) join.Policy {
	if t.policy != nil {
		return *t.policy
	}
	return w.TaskPolicy
}
