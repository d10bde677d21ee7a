package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/validate"
)

// batchHeader is the header that holds the id of a job's batch.
const batchHeader = "txwork-batch"

// afterHeader is the header that holds how many jobs a job waits for, at least. It is in the job's own row, so that the
// job knows what it has to find even if its join is lost.
const afterHeader = "txwork-after"

// A Batch is a set of jobs that run side by side, and a job that runs when all of them have ended: a join over
// jobs, see package join.
//
// A job of a batch is always a row of its own, so neither the job nor its kind may be Unique.
type Batch struct {
	// Label is for people and for [join.ListOptions]: at most [join.MaxLabel] bytes.
	Label string

	// Jobs are the jobs of the batch; [Client.AddToBatch] adds more. A batch without jobs completes with the next
	// fold.
	Jobs []Insert

	// OnComplete and OnFail are written with the jobs. The first runs if the batch completes, the second if it fails.
	// Both are optional. They find the batch with [Delivery.BatchID] and its jobs with [Delivery.Dependencies]. The one
	// that does not run ends as cancelled if it is OnComplete, and as done if it is OnFail.
	OnComplete, OnFail *Insert

	// Policy says when the batch ends and how. Default: [join.WaitAll].
	Policy join.Policy

	// Deadline fails the batch if it is still pending then, by the database's clock. Its jobs go on. Default: none.
	Deadline time.Time
}

// A StartedBatch holds the ids of a batch and of its jobs.
type StartedBatch struct {
	ID                 uuid.UUID
	Jobs               []uuid.UUID
	OnComplete, OnFail uuid.UUID // zero: none
}

// StartBatch writes a batch with its jobs in the application's transaction: all of it exists if and only if that
// commits. A job counts when it is settled: a done job as succeeded, a dead letter or a cancelled job as failed. A
// failed attempt that is retried does not count, and a failed job that is redriven while the batch is pending counts
// again when it ends. The batch ends some milliseconds after its last job.
//
// Everything is validated before anything is written; an [*workqueue.ItemError] says which job was refused and why.
func (c *Client) StartBatch(ctx context.Context, tx workqueue.Tx, b Batch) (StartedBatch, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return StartedBatch{}, err
	}
	j := join.Join{ID: id, Label: b.Label, Policy: b.Policy, Deadline: b.Deadline}
	inserts := batchJobs(id, b.Jobs)
	all := append(inserts[:len(inserts):len(inserts)], continuations(batchHeader, id, len(b.Jobs), b.OnComplete,
		b.OnFail)...)
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
// The error is [join.ErrEnded] if the batch has ended, even a moment ago, and [workqueue.ErrNotFound] if there is no
// such batch. Roll the transaction back then.
func (c *Client) AddToBatch(ctx context.Context, tx workqueue.Tx, id uuid.UUID, jobs ...Insert) ([]uuid.UUID, error) {
	inserts := batchJobs(id, jobs)
	if err := c.refuseUnique(inserts); err != nil {
		return nil, err
	}
	state, err := c.joins.Get(ctx, tx, id) // refuses an ended batch before anything is written
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

// Batch reads the progress of a batch: how many jobs it has, and how many of them have succeeded and failed. The error
// is [workqueue.ErrNotFound] if there is no such batch. An ended batch is kept for the [Options].Retention.
func (c *Client) Batch(ctx context.Context, tx workqueue.Tx, id uuid.UUID) (join.State, error) {
	return c.joins.Get(ctx, tx, id)
}

// CancelBatch ends a batch as cancelled, with the reason, and cancels its jobs as [Client.Cancel] does. Neither
// OnComplete nor OnFail runs. It reports whether the batch was pending. If the batch has ended already, such as by its
// deadline, CancelBatch cancels the jobs that are still live. The error is [workqueue.ErrNotFound] if there is no such
// batch.
func (c *Client) CancelBatch(ctx context.Context, tx workqueue.Tx, id uuid.UUID, reason string) (bool, error) {
	pending, err := c.joins.Cancel(ctx, tx, id, join.CancelOptions{Reason: reason, CancelMembers: true})
	if pending || err != nil {
		return pending, err
	}
	return false, c.cancelMembers(ctx, tx, id, reason)
}

// cancelMembers cancels the live members of a join that has ended.
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

// Joins returns the joins over jobs, which are the batches and workflows. Use it to list them by label, and to page
// through their members.
func (c *Client) Joins() *join.Joins { return c.joins }

// BatchID returns the id of the batch that the job belongs to, or that it continues as OnComplete or OnFail. It is zero
// for other jobs.
func (d *Delivery) BatchID() uuid.UUID { return d.idHeader(batchHeader) }

func (d *Delivery) idHeader(name string) uuid.UUID {
	id, err := uuid.Parse(d.Headers[name])
	if err != nil {
		return uuid.Nil
	}
	return id
}

// batchJobs marks inserts as jobs of a batch.
func batchJobs(id uuid.UUID, jobs []Insert) []Insert {
	inserts := make([]Insert, len(jobs))
	for i, insert := range jobs {
		insert.joined = true
		inserts[i] = insert.withHeader(batchHeader, id.String())
	}
	return inserts
}

// continuations prepares the jobs that continue a join of some jobs, in the order of the arguments. Nil arguments are
// skipped.
func continuations(header string, id uuid.UUID, after int, list ...*Insert) (inserts []Insert) {
	for _, insert := range list {
		if insert != nil {
			continuation := insert.withHeader(header, id.String())
			continuation.Headers[afterHeader] = strconv.Itoa(after)
			continuation.waiting = true
			inserts = append(inserts, continuation)
		}
	}
	return inserts
}

// continuationIDs assigns the ids of the jobs that continuations prepared to OnComplete, whose argument is first, and
// OnFail.
func continuationIDs(enqueued []workqueue.Enqueued, first *Insert) (onComplete, onFail uuid.UUID) {
	if first != nil {
		onComplete, enqueued = enqueued[0].ID, enqueued[1:]
	}
	if len(enqueued) > 0 {
		onFail = enqueued[0].ID
	}
	return onComplete, onFail
}

// nameContinuation names the job that an error is about: one of the call's n jobs, or OnComplete or OnFail, which come
// after them.
func nameContinuation(err error, n int, onComplete *Insert) error {
	var refused *workqueue.ItemError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Index < n:
		return &workqueue.ItemError{Item: "job", Index: refused.Index, Count: n, Err: refused.Err}
	case refused.Index == n && onComplete != nil:
		return &partError{"OnComplete", refused.Err}
	}
	return &partError{"OnFail", refused.Err}
}

// withHeader adds a header to a copy, because the map is the caller's.
func (i Insert) withHeader(name, value string) Insert {
	headers := maps.Clone(i.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[name] = value
	i.Headers = headers
	return i
}

// refuseUnique refuses unique jobs. The holder of such a job's key might be a row that is not a member of the join, or
// that is a member of another one.
func (c *Client) refuseUnique(inserts []Insert) error {
	for i, insert := range inserts {
		var err error
		switch {
		case contain.IsNil(insert.Args):
			err = validate.Errorf("args", "are nil")
		case insert.Unique != nil:
			err = validate.Errorf("Unique", "is set on a job of a batch or workflow, which is always a job of its own")
		case c.registry.find(insert.Args.Kind()).unique != nil:
			err = validate.Errorf("Unique", "is set on kind %q, whose jobs therefore cannot be those of a batch or "+
				"workflow", insert.Args.Kind())
		}
		if err != nil {
			return &workqueue.ItemError{Item: "job", Index: i, Count: len(inserts), Err: err}
		}
	}
	return nil
}
