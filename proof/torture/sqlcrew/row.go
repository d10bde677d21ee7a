package sqlcrew

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Row is a row that was fetched.
type Row struct {
	Table, Name string
	Attempt     int
	Payload     []byte

	worker    *Worker
	table     *table
	id, token string
	weight    int64
	ctx       context.Context
	cancel    context.CancelFunc
	completed bool // in its own transaction
	outcome   Outcome
}

// An Outcome is an element of what a settle takes.
type Outcome struct {
	What  string // ack, retry, fail, snooze or release
	Delay time.Duration
	Error string
}

// run runs the row's handler.
func (r *Row) run() {
	defer func() { r.table.ended <- r }()
	r.outcome = Outcome{What: "release"}
	if r.worker.width.Acquire(r.ctx, r.weight) != nil {
		return // it is lost, or the worker stops
	}
	defer r.worker.width.Release(r.weight)
	if r.Table == "jobs" && rand.IntN(4) == 0 && !r.step() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.outcome = Outcome{What: "retry", Delay: errorPause, Error: fmt.Sprint("panic: ", p)}
		}
	}()
	r.outcome = r.worker.Handle(r.ctx, r)
}

// Complete calls do in a transaction that completes the row, and commits.
func (r *Row) Complete(ctx context.Context, do func(pgx.Tx) error) error {
	call := fmt.Sprintf("SELECT %s.%s_complete($1::uuid, $2::uuid)", r.worker.Schema, r.Table)
	args := []any{r.token, r.id}
	if r.Table == "jobs" && rand.IntN(2) == 0 {
		call, args = "SELECT "+r.worker.Schema+".jobs_complete($1::uuid, $2::uuid, $3::text)", append(args, `"done"`)
	}
	err := r.worker.pooled(ctx, func(s *session) error {
		return s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := do(tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, call, args...)
			return err
		})
	})
	r.completed = err == nil
	return err
}

func (w *Worker) pooled(ctx context.Context, do func(*session) error) error {
	select {
	case s := <-w.pool:
		defer func() { w.pool <- s }()
		return do(s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step records a step of a job, which every attempt after that has to find. It is false if the job is lost.
func (r *Row) step() (held bool) {
	schema := r.worker.Schema
	err := r.worker.pooled(r.ctx, func(s *session) error {
		return s.commit(r.ctx, func(ctx context.Context, tx pgx.Tx) error {
			var before *string
			var result string
			var recorded []byte
			err := tx.QueryRow(ctx, "SELECT max(convert_from(result, 'UTF8')) FILTER (WHERE name = 'begun') FROM "+
				schema+".jobs_steps($1::uuid, $2::uuid)", r.token, r.id).Scan(&before)
			if err != nil {
				return err
			}
			value := fmt.Sprint(r.Attempt)
			err = tx.QueryRow(ctx, "SELECT result, recorded FROM "+schema+".jobs_put_step($1::uuid, $2::uuid, "+
				"'begun', $3::text)", r.token, r.id, value).Scan(&result, &recorded)
			if err != nil {
				return err
			}
			if before != nil && (result != "kept" || string(recorded) != *before) {
				panic(fmt.Sprintf("the step of job %s was %q, and is %q (%s)", r.id, *before, recorded, result))
			}
			_, err = tx.Exec(ctx, "SELECT "+schema+".jobs_progress($1::uuid, $2::uuid, 50, 'begun')", r.token, r.id)
			return err
		})
	})
	refused := refusal(err)
	return refused == nil || refused.Code != "TXL01"
}
