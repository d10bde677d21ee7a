package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/input"
)

// Stepper is the job that a handler works on: a *[Job] of any type, or a *[Delivery].
type Stepper interface{ delivery() *Delivery }

func (d *Delivery) delivery() *Delivery { return d }

// Step runs fn once for a job, however many attempts the job takes. It records the result, and when the handler runs
// again, Step returns the recorded result and does not call fn. The name identifies the step within the job: 1 to
// [MaxStep] bytes. The result is encoded like args.
//
// An error of fn is returned, and nothing is recorded, so the next attempt calls fn again. A process that dies after fn
// has returned and before the result is recorded repeats the step, so effects of fn outside this database must be
// idempotent; for writes to this database, use [StepTx]. Recording is guarded by the lease: if that was lost, the error
// is [workqueue.ErrLeaseLost], and the result is discarded.
//
// Records are kept when a failed job is redriven, and deleted with the job.
func Step[R any](ctx context.Context, job Stepper, name string, fn func(ctx context.Context) (R, error)) (R, error) {
	d := job.delivery()
	if result, found, err := recorded[R](ctx, d, name); found || err != nil {
		return result, err
	}
	result, err := fn(ctx)
	if err != nil {
		return result, err
	}
	return settledStep(ctx, d, name, result, d.putStep(ctx, d.worker.db, name, result))
}

// StepTx is [Step] for writes to this database. It runs fn in a READ COMMITTED transaction that also records the
// result, so the writes of fn take effect exactly once, and only together with the record. The job is not settled.
//
// This holds even if fn runs twice in one attempt, because the handler repeats a StepTx whose commit failed or calls it
// concurrently: a call that finds the step recorded is rolled back, and returns the recorded result.
func StepTx[R any](ctx context.Context, job Stepper, name string, fn func(ctx context.Context, tx pgx.Tx) (R,
	error)) (R, error) {
	d := job.delivery()
	result, found, err := recorded[R](ctx, d, name)
	if found || err != nil {
		return result, err
	}
	err = d.worker.inTx(ctx, func(tx pgx.Tx) error {
		if result, err = fn(ctx, tx); err != nil {
			return err
		}
		return d.putStep(ctx, tx, name, result)
	})
	if err != nil {
		d.forgetStep(name)
	}
	return settledStep(ctx, d, name, result, err)
}

// errOnRecord says that the step was recorded after the attempt had read its steps: by a commit whose reply was lost,
// or by another call of the same attempt.
var errOnRecord = errors.New("the step is on record already")

// settledStep returns the step's result or, if another call has recorded one first, that result.
func settledStep[R any](ctx context.Context, d *Delivery, name string, result R, err error) (R, error) {
	if !errors.Is(err, errOnRecord) {
		return result, err
	}
	if err := d.rereadSteps(ctx); err != nil {
		return result, err
	}
	result, found, err := recorded[R](ctx, d, name)
	if err == nil && !found {
		err = d.lost() // the job was deleted, and its record with it
	}
	return result, err
}

// recorded returns the recorded result of a step, if there is one.
func recorded[R any](ctx context.Context, d *Delivery, name string) (result R, found bool, err error) {
	if d.claim == nil {
		return result, false, errNoWorker
	}
	if err := input.Name("step", name, MaxStep); err != nil {
		return result, false, err
	}
	stored, found, err := d.step(ctx, name)
	if !found || err != nil {
		return result, false, err
	}
	if err := d.worker.client.decode(ctx, d.owner, stepField(name), stored, &result); err != nil {
		return result, true, fmt.Errorf("txwork: the result of step %q does not decode: %w", name, err)
	}
	return result, true, nil
}

// step returns the recorded result of a step. It reads all steps of the job once in an attempt, and not at all if the
// job has no trail, which means that it has recorded none. A job that was replaced has the trail false, by which the
// statement knows that its steps are void.
func (d *Delivery) step(ctx context.Context, name string) ([]byte, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.steps == nil {
		if d.trail != nil {
			steps, err := d.readSteps(ctx)
			if err != nil {
				return nil, false, err
			}
			d.steps = steps
		} else {
			d.steps = map[string][]byte{}
		}
	}
	stored, found := d.steps[name]
	return stored, found, nil
}

func (d *Delivery) readSteps(ctx context.Context) (map[string][]byte, error) {
	rows, err := d.worker.db.Query(ctx, d.worker.client.statements.steps, d.ID)
	if err != nil {
		return nil, err
	}
	type step struct {
		Name   string
		Result []byte
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[step])
	steps := make(map[string][]byte, len(list))
	for _, s := range list {
		steps[s.Name] = s.Result
	}
	return steps, err
}

func (d *Delivery) rereadSteps(ctx context.Context) error {
	steps, err := d.readSteps(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = steps
	return nil
}

// putStep records a result. The error is errOnRecord if there is one already.
func (d *Delivery) putStep(ctx context.Context, db database, name string, result any) error {
	encoded, err := d.encode(ctx, stepField(name), result)
	if err != nil {
		return err
	}
	var held, put bool
	err = db.QueryRow(ctx, d.worker.client.statements.putStep, d.ID, d.claim.Token, name, encoded).Scan(&held, &put)
	switch {
	case err != nil:
		return err
	case !held:
		return d.lost()
	case !put:
		return errOnRecord
	}
	d.rememberStep(name, encoded)
	return nil
}

// rememberStep keeps a result, so that the attempt need not read it again.
func (d *Delivery) rememberStep(name string, encoded []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps[name] = encoded
}

func (d *Delivery) forgetStep(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.steps, name)
}
