package jobs

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// StartWorkflow writes a workflow with all its tasks in the application's transaction: all of it exists if and only
// if that commits. Tasks without dependencies may run then; the others wait, and are released some milliseconds after
// the last of their dependencies has been settled.
//
// A failure cancels the tasks that depend on it in batches of about a tenth of a second, which takes about a
// millisecond for each task of the longest chain that is cancelled. Other jobs go on meanwhile.
//
// A failed attempt that is retried does not count. A dead letter that is redriven with [Client.Redrive] counts again
// where it still matters: while the workflow is pending, or a dependent task still waits for other dependencies, it is
// as if the task had not failed. A task that was cancelled because of the failure stays cancelled until you redrive it,
// too. It then runs at once, so redrive it when its dependencies are done. A workflow that has ended stays ended.
//
// Everything is validated before anything is written: cycles, unknown dependencies, duplicate or empty names, too many
// tasks, and every job. Errors name the task.
func (c *Client) StartWorkflow(ctx context.Context, tx workqueue.Tx, w *Workflow) (StartedWorkflow, error) {
	p, err := newPlan(w)
	if err != nil {
		return StartedWorkflow{}, err
	}
	inserts := p.inserts()
	if err := c.refuseUnique(inserts); err != nil {
		return StartedWorkflow{}, p.name(err)
	}
	enqueued, err := c.EnqueueMany(ctx, tx, inserts...)
	if err != nil {
		return StartedWorkflow{}, p.name(err)
	}
	started, ids := p.started(enqueued)
	joins, err := p.joins(started, ids)
	if err != nil {
		return StartedWorkflow{}, err
	}
	return started, c.startJoins(ctx, tx, joins)
}

func (p *plan) started(enqueued []workqueue.Enqueued) (StartedWorkflow, []uuid.UUID) {
	ids := workqueue.IDs(enqueued[:len(p.tasks)])
	s := StartedWorkflow{ID: p.id, Tasks: make(map[string]uuid.UUID, len(ids))}
	for i, t := range p.tasks {
		s.Tasks[t.name] = ids[i]
	}
	s.OnComplete, s.OnFail = continuationIDs(enqueued[len(ids):], p.OnComplete)
	return s, ids
}

// startJoins starts joins in as few calls as possible.
func (c *Client) startJoins(ctx context.Context, tx workqueue.Tx, joins []join.Join) error {
	for len(joins) > 0 {
		n, members := 0, 0
		for n < len(joins) && members+len(joins[n].Members) <= workqueue.MaxBatch {
			members += len(joins[n].Members)
			n++
		}
		if _, err := c.joins.Start(ctx, tx, joins[:n]...); err != nil {
			return err
		}
		joins = joins[n:]
	}
	return nil
}

// CancelWorkflow ends a workflow as cancelled, with the reason, and cancels its tasks as [Client.Cancel] does: waiting
// and ready tasks end at once, and the contexts of running handlers are cancelled. Neither OnComplete nor OnFail runs.
// It reports whether the workflow was pending. If the workflow has ended already, such as by its deadline,
// CancelWorkflow cancels the tasks that are still live. The error is [workqueue.ErrNotFound] if there is no such
// workflow.
func (c *Client) CancelWorkflow(ctx context.Context, tx workqueue.Tx, id uuid.UUID, reason string) (bool, error) {
	return c.CancelBatch(ctx, tx, id, reason)
}
