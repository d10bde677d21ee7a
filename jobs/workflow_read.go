package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/join"
)

// ErrNoOutput says that a task has recorded no output.
var ErrNoOutput = errors.New("no output is recorded")

// A TaskInfo is a task of a workflow, or a job of a batch, as it is stored.
type TaskInfo struct {
	Name        string // for a job of a batch, its id
	ID          uuid.UUID
	Kind        string
	Status      workqueue.Status
	Waiting     bool // Ready, but held back, until its dependencies have ended or behind its key
	Attempts    int
	DueAt       time.Time
	CompletedAt *time.Time // when it was done or failed
	CancelledAt *time.Time // when it was cancelled, including because a dependency failed
	LastError   string
}

// A WorkflowInfo is the state of a workflow and of its tasks.
type WorkflowInfo struct {
	join.State            // Label is the name, Expected and so on count tasks
	Tasks      []TaskInfo // in the order in which they were added, unless [With] set their ids
	Missing    int        // tasks that are counted, but not among Tasks, because their rows were deleted
}

// Workflow reads a workflow with its tasks. The error is [workqueue.ErrNotFound] if there is no such workflow. An ended
// workflow is kept for the [Options].Retention, and so is a done task, counted from its own end. Tasks of a workflow
// that takes longer than that are therefore deleted before it, and are counted but not listed. A workflow is kept for
// longer while its OnComplete or OnFail may still run, which includes a dead letter that could be redriven.
func (c *Client) Workflow(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (WorkflowInfo, error) {
	state, err := c.joins.Get(ctx, tx, id)
	if err != nil {
		return WorkflowInfo{}, err
	}
	w := WorkflowInfo{State: state}
	var found census
	err = c.table.In(tx).Query(ctx, found.tasks(&w.Tasks), c.statements.tasks, id)
	w.Missing = found.missing()
	return w, err
}

// WorkflowID returns the id of the workflow that the job is a task of, or that it continues as OnComplete or OnFail. It
// is zero for other jobs.
func (d *Delivery) WorkflowID() uuid.UUID { return d.idHeader(workflowHeader) }

// TaskName returns the job's name in its workflow. It is empty if the job is not a task.
func (d *Delivery) TaskName() string { return d.Headers[taskHeader] }

// Dependencies reads the jobs that this one has waited for, in the order of their ids: the dependencies of a task, or,
// for an OnComplete or OnFail, all tasks of the workflow or all jobs of the batch. Other jobs have none.
//
// If rows of some of them are gone, the error is a [*MissingError], and the others are returned with it.
func (d *Delivery) Dependencies(ctx context.Context) ([]TaskInfo, error) {
	if d.claim == nil {
		return nil, errNoWorker
	}
	var tasks []TaskInfo
	found := census{known: d.after()}
	err := d.each(ctx, found.tasks(&tasks), d.worker.client.statements.tasks, d.ID)
	return tasks, cmp.Or(err, found.error(d.ID))
}

// after returns how many jobs this one waited for when it was written. More may have been added to its batch.
func (d *Delivery) after() int {
	n, err := strconv.Atoi(d.owner.headers[afterHeader])
	if err != nil {
		return 0 // not written by this package
	}
	return n
}

// OutputOf reads the output of a dependency of a job, by the dependency's name, see [Delivery.Output]. The error is
// [ErrNoOutput] if it has recorded none, [workqueue.ErrNotFound] if there is no such dependency, and a [*MissingError]
// if it may be one of those whose rows are gone.
func OutputOf[T any](ctx context.Context, job Stepper, task string) (v T, err error) {
	found := false
	d := job.delivery()
	_, err = d.outputs(ctx, &task, func(o taskOutput) error {
		found = true
		return o.decode(ctx, d, &v)
	})
	if found || err != nil {
		return v, err
	}
	if _, err := d.Dependencies(ctx); err != nil {
		return v, &partError{fmt.Sprintf("dependency %q", task), err}
	}
	return v, fmt.Errorf("txwork: dependency %q of job %s %w", task, d.ID, workqueue.ErrNotFound)
}

// Outputs reads the outputs of all [Delivery.Dependencies] of a job, by name. Dependencies that have recorded none are
// left out.
//
// If rows of some dependencies are gone, the error is a [*MissingError], and the outputs of the others are returned
// with it.
func Outputs[T any](ctx context.Context, job Stepper) (map[string]T, error) {
	all := map[string]T{}
	found, err := job.delivery().outputs(ctx, nil, func(o taskOutput) error {
		if o.stored == nil {
			return nil
		}
		var v T
		err := o.decode(ctx, job.delivery(), &v)
		all[o.name] = v
		return err
	})
	return all, cmp.Or(err, found.error(job.delivery().ID))
}

// A taskOutput is the output of a task in its stored form.
type taskOutput struct {
	name   string
	owner  owner
	stored []byte
}

func (o taskOutput) decode(ctx context.Context, d *Delivery, into any) error {
	if o.stored == nil {
		return fmt.Errorf("txwork: task %q: %w", o.name, ErrNoOutput)
	}
	err := d.worker.client.decode(ctx, o.owner, outputField, o.stored, into)
	if err != nil {
		err = fmt.Errorf("txwork: the output of task %q does not decode: %w", o.name, err)
	}
	return err
}

// outputs calls read for each dependency, or only for the one with the given name.
func (d *Delivery) outputs(ctx context.Context, name *string, read func(taskOutput) error) (census, error) {
	if d.claim == nil {
		return census{}, errNoWorker
	}
	found := census{known: d.after()}
	err := d.each(ctx, func(scan func(...any) error) error {
		var o taskOutput
		var headers string
		var expected int
		if err := scan(&expected, &o.owner.id, &o.name, &o.owner.kind, &headers, &o.stored); err != nil {
			return err
		}
		if !found.count(expected, o.owner.id, o.owner.kind) {
			return nil
		}
		o.owner.headers = codec.ReadHeaders(&headers)
		return read(o)
	}, d.worker.client.statements.outputs, d.ID, name)
	return found, err
}

// each runs a query on the worker's database and calls row for each result.
func (d *Delivery) each(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := d.worker.db.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Join and Member are the tables of joins and of their members.
func (v view) Join() string   { return v.qualified("_join") }
func (v view) Member() string { return v.qualified("_join_member") }

// TaskHeader is the header that holds a task's name, as an SQL literal.
func (v view) TaskHeader() string { return "'" + taskHeader + "'" }
