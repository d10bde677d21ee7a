package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// batchHeader has the id of a job's batch.
const batchHeader = "txwork-batch"

// A Batch is jobs that are done side by side, and a job that runs when all of them have ended: a join over
// jobs, see package join.
//
// Jobs of a batch are rows of their own, so they are not Unique, and neither are their kinds.
type Batch struct {
	// Label is for people and for [join.ListOptions]: at most [join.MaxLabel] bytes.
	Label string

	// Jobs are those of the batch; [Client.AddToBatch] adds more. None: the batch completes with the next fold.
	Jobs []Insert

	// OnComplete and OnFail are written with the jobs, and run if the batch ends so. Both are optional. They
	// find the batch with [Delivery.BatchID] and its jobs with [Delivery.Dependencies]. The one that the batch
	// did not come to ends as cancelled, or as done if it is OnFail.
	OnComplete, OnFail *Insert

	// Policy says when the batch ends and how. Default: [join.WaitAll].
	Policy join.Policy

	// Deadline fails the batch if it is still pending then, by the database's clock. Its jobs go on. Zero: none.
	Deadline time.Time
}

// A StartedBatch is the ids of a batch and of its jobs.
type StartedBatch struct {
	ID                 uuid.UUID
	Jobs               []uuid.UUID
	OnComplete, OnFail uuid.UUID // zero: none
}

// StartBatch writes a batch with its jobs in the application's transaction: all of it exists if and only if that
// commits. A job counts when it is settled: done as succeeded; failed for good or cancelled as failed. An attempt that
// is retried counts as nothing, and a failed job that is redriven while the batch is pending counts again when it
// ends. The batch ends some milliseconds after its last job.
//
// Everything is validated before anything is written; an [*workqueue.ItemError] says which job was refused and why.
func (c *Client) StartBatch(ctx context.Context, tx workqueue.Tx, b Batch) (StartedBatch, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return StartedBatch{}, err
	}
	j := join.Join{ID: id, Label: b.Label, Policy: b.Policy, Deadline: b.Deadline}
	inserts := batchJobs(id, b.Jobs)
	all := append(inserts[:len(inserts):len(inserts)], continuations(batchHeader, id, b.OnComplete, b.OnFail)...)
	if err := cmp.Or(j.Validate(), c.refuseUnique(all)); err != nil {
		return StartedBatch{}, nameContinuation(err, len(inserts), b.OnComplete)
	}
	enqueued, err := c.EnqueueMany(ctx, tx, all...)
	if err != nil {
		return StartedBatch{}, nameContinuation(err, len(inserts), b.OnComplete)
	}
	started := StartedBatch{ID: id, Jobs: workqueue.IDs(enqueued[:len(inserts)])}
	started.OnComplete, started.OnFail = continuationIDs(enqueued[len(inserts):], b.OnComplete)
	j.OnComplete, j.OnFail = started.OnComplete, started.OnFail
	return started, c.startJoin(ctx, tx, j, started.Jobs)
}

// startJoin starts a join over any number of new jobs.
func (c *Client) startJoin(ctx context.Context, tx workqueue.Tx, j join.Join, members []uuid.UUID) error {
	n := min(len(members), workqueue.MaxBatch)
	j.Members = members[:n]
	if _, err := c.joins.Start(ctx, tx, j); err != nil {
		return err
	}
	return c.addMembers(ctx, tx, j.ID, members[n:])
}

func (c *Client) addMembers(ctx context.Context, tx workqueue.Tx, id uuid.UUID, members []uuid.UUID) error {
	for len(members) > 0 {
		n := min(len(members), workqueue.MaxBatch)
		if err := c.joins.Add(ctx, tx, id, members[:n]...); err != nil {
			return err
		}
		members = members[n:]
	}
	return nil
}

// AddToBatch enqueues more jobs of a pending batch and returns their ids. A job of the batch that adds others in
// its own [Delivery.Tx] finds it pending, unless the batch fails fast, has a deadline or was cancelled.
//
// The error is [join.ErrEnded] if the batch has ended, even a moment ago, and [workqueue.ErrNotFound] if there is none:
// roll the transaction back then.
func (c *Client) AddToBatch(ctx context.Context, tx workqueue.Tx, id uuid.UUID, jobs ...Insert) ([]uuid.UUID, error) {
	inserts := batchJobs(id, jobs)
	if err := c.refuseUnique(inserts); err != nil {
		return nil, err
	}
	state, err := c.joins.Get(ctx, tx, id) // what is refused now has written nothing
	if err == nil && state.Status != join.Pending {
		err = fmt.Errorf("txwork: %w: %s is %s", join.ErrEnded, id, state.Status)
	}
	if err != nil {
		return nil, err
	}
	enqueued, err := c.EnqueueMany(ctx, tx, inserts...)
	if err != nil {
		return nil, err
	}
	ids := workqueue.IDs(enqueued)
	return ids, c.addMembers(ctx, tx, id, ids)
}

// Batch reads how far a batch is: how many jobs it has, and how many of them have succeeded and failed. The error
// is [workqueue.ErrNotFound] if there is none. An ended batch is kept for the [Options].Retention.
func (c *Client) Batch(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (join.State, error) {
	return c.joins.Get(ctx, tx, id)
}

// CancelBatch ends a batch as cancelled, with the reason, and cancels its jobs as [Client.Cancel] does. Neither
// OnComplete nor OnFail runs. It reports whether the batch was pending; of one that has ended, such as by its
// deadline, the jobs that have not are cancelled. The error is [workqueue.ErrNotFound] if there is none.
func (c *Client) CancelBatch(ctx context.Context, tx workqueue.Tx, id uuid.UUID, reason string) (bool, error) {
	pending, err := c.joins.Cancel(ctx, tx, id, join.CancelOptions{Reason: reason, CancelMembers: true})
	if pending || err != nil {
		return pending, err
	}
	return false, c.cancelMembers(ctx, tx, id, reason)
}

// cancelMembers cancels what is left of a join that has ended.
func (c *Client) cancelMembers(ctx context.Context, tx workqueue.Tx, id uuid.UUID, reason string) error {
	for after := uuid.Nil; ; {
		members, err := c.joins.Members(ctx, tx, id, after, workqueue.MaxBatch)
		if err != nil || len(members) == 0 {
			return err
		}
		var live []uuid.UUID
		for _, m := range members {
			after = m.ID
			if m.Outcome == join.None && m.Late == join.None {
				live = append(live, m.ID)
			}
		}
		if _, err := c.table.In(tx).Cancel(ctx, live, reason); err != nil {
			return err
		}
	}
}

// Joins are the joins of the jobs, which batches and workflows are: to list them by label, and to page through their
// members.
func (c *Client) Joins() *join.Joins { return c.joins }

// BatchID is the batch of which this is a job, or which it continues as its OnComplete or OnFail. Zero: none.
func (d *Delivery) BatchID() uuid.UUID { return d.idHeader(batchHeader) }

func (d *Delivery) idHeader(name string) uuid.UUID {
	id, err := uuid.Parse(d.Headers[name])
	if err != nil {
		return uuid.Nil
	}
	return id
}

// batchJobs are inserts as those of a batch.
func batchJobs(id uuid.UUID, jobs []Insert) []Insert {
	inserts := make([]Insert, len(jobs))
	for i, insert := range jobs {
		insert.joined = true
		inserts[i] = insert.withHeader(batchHeader, id.String())
	}
	return inserts
}

// continuations are the inserts of what continues a join, in the order of the arguments.
func continuations(header string, id uuid.UUID, list ...*Insert) (inserts []Insert) {
	for _, insert := range list {
		if insert != nil {
			continuation := insert.withHeader(header, id.String())
			continuation.waiting = true
			inserts = append(inserts, continuation)
		}
	}
	return inserts
}

// continuationIDs tells which is which of what continuations has made.
func continuationIDs(enqueued []workqueue.Enqueued, first *Insert) (onComplete, onFail uuid.UUID) {
	if first != nil {
		onComplete, enqueued = enqueued[0].ID, enqueued[1:]
	}
	if len(enqueued) > 0 {
		onFail = enqueued[0].ID
	}
	return onComplete, onFail
}

// nameContinuation says which of the two was refused, which come after a call's n jobs.
func nameContinuation(err error, n int, onComplete *Insert) error {
	var refused *workqueue.ItemError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Index < n:
		return &workqueue.ItemError{Item: "job", Index: refused.Index, Count: n, Err: refused.Err}
	case refused.Index == n && onComplete != nil:
		return fmt.Errorf("on complete: %w", refused.Err)
	}
	return fmt.Errorf("on fail: %w", refused.Err)
}

// withHeader leaves the caller's headers alone.
func (i Insert) withHeader(name, value string) Insert {
	headers := maps.Clone(i.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[name] = value
	i.Headers = headers
	return i
}

// refuseUnique refuses jobs that might turn out to be another row: one that is no step of the join, or is one of
// somebody else's.
func (c *Client) refuseUnique(inserts []Insert) error {
	for i, insert := range inserts {
		var err error
		switch {
		case isNil(insert.Args):
			err = validate.Errorf("args", "are nil")
		case insert.Unique != nil:
			err = validate.Errorf("unique", "is set on a job of a batch or workflow, which is always a job of its own")
		case c.registry.find(insert.Args.Kind()).unique != nil:
			err = validate.Errorf("unique", "is set on kind %q, whose jobs therefore cannot be those of a batch or "+
				"workflow", insert.Args.Kind())
		}
		if err != nil {
			return &workqueue.ItemError{Item: "job", Index: i, Count: len(inserts), Err: err}
		}
	}
	return nil
}
