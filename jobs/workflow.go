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
	// MaxDependencies is how many dependencies its tasks may have together.
	MaxDependencies = 100_000
	// MaxTaskName is in bytes.
	MaxTaskName = 255
)

// Headers that tell a task where it belongs.
const (
	workflowHeader = "txwork-workflow" // the workflow's id
	taskHeader     = "txwork-task"     // the task's name
)

// A Workflow is jobs that run after each other: its tasks make a directed acyclic graph. Build it with
// [Workflow.Task], and start it with [Client.StartWorkflow], as often as you like; starting does not change it.
// Building is not safe for concurrent use.
//
// Each dependent task is the continuation of a join over its dependencies, see package join. One more join,
// whose id is the workflow's, has all tasks as its steps.
type Workflow struct {
	// Name is for people and for [join.ListOptions], as the label of the workflow's join: at most [join.MaxLabel]
	// bytes. It may be empty, and any number of workflows may share it.
	Name string

	// TaskPolicy is that of tasks that have none of their own, see [WithPolicy]. Default: [join.WaitAll].
	TaskPolicy join.Policy

	// OnComplete and OnFail run when the workflow ends. Both are optional. They find the workflow with
	// [Delivery.WorkflowID] and its tasks with [Delivery.Dependencies]. The one that the workflow did not come to
	// ends as cancelled, or as done if it is OnFail.
	OnComplete, OnFail *Insert

	// Policy says when the workflow ends and how. With [join.WaitAll], the default, when all tasks have ended: it
	// completes if all have succeeded. With [join.FailFast] it fails with the first task that does, and the
	// other tasks go on. With [join.AnyOutcome] it completes when all tasks have ended, however.
	Policy join.Policy

	// Deadline fails the workflow if it is still pending then, by the database's clock. Its tasks go on; an OnFail
	// that does not want that calls [Client.CancelWorkflow]. Zero: none.
	Deadline time.Time

	tasks []*Task
}

// NewWorkflow makes a workflow without tasks.
func NewWorkflow(name string) *Workflow { return &Workflow{Name: name} }

// A Task is a job of a [Workflow], by which other tasks name it as a dependency.
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

// Task adds a task: its name is its own in the workflow, 1 to [MaxTaskName] bytes. A task without dependencies may
// run as soon as the workflow has been started. What is wrong is reported by [Client.StartWorkflow].
func (w *Workflow) Task(name string, args Args, options ...TaskOption) *Task {
	t := &Task{workflow: w, name: name, insert: Insert{Args: args}}
	for _, option := range options {
		option(t)
	}
	w.tasks = append(w.tasks, t)
	return t
}

// After makes a task run after others of its workflow: by its policy, when they have succeeded.
func After(tasks ...*Task) TaskOption {
	return func(t *Task) { t.after = append(t.after, tasks...) }
}

// AfterNamed is [After] by names, also those of tasks that are added later.
func AfterNamed(names ...string) TaskOption {
	return func(t *Task) { t.named = append(t.named, names...) }
}

// WithPolicy says what becomes of a task when one of its dependencies fails or is cancelled. Default: the
// workflow's TaskPolicy.
//
//   - [join.WaitAll]: when all dependencies have ended, the task is cancelled, and by their own policies the
//     tasks behind it.
//   - [join.FailFast]: the same, but at once: other dependencies may still be running.
//   - [join.AnyOutcome]: the task runs when all dependencies have ended, however. It finds out with
//     [Delivery.Dependencies].
func WithPolicy(p join.Policy) TaskOption {
	return func(t *Task) { t.policy = &p }
}

// With gives a task options of its own. ScheduledAt and Delay count from the workflow's start; a task whose
// dependencies take longer runs at once then. A rule is entered when the dependencies have ended. A task
// cannot be Unique, by its options or by its kind: it is always a job of its own.
func With(o InsertOptions) TaskOption {
	return func(t *Task) { t.insert.InsertOptions = o }
}

// A StartedWorkflow is the ids of a workflow and of its tasks.
type StartedWorkflow struct {
	ID                 uuid.UUID
	Tasks              map[string]uuid.UUID // by name
	OnComplete, OnFail uuid.UUID            // zero: none
}

// policyOf is a task's own, or the workflow's.
func (w *Workflow) policyOf(t *Task) join.Policy {
	if t.policy != nil {
		return *t.policy
	}
	return w.TaskPolicy
}
