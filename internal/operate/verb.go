package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// Batch is how many rows one call of a verb changes.
const Batch = 1000

// A Verb is a function of the database by which an operator decides about rows.
type Verb struct {
	Done string // what it did to the rows, such as "redriven"
	Args []any  // beside the ids

	function string   // behind the table's name
	settled  []string // the states in which it leaves rows alone because they are as intended
}

// Settled tells whether the verb leaves a row in the state alone because it is as intended, for example because the
// verb was repeated.
func (v Verb) Settled(state string) bool { return slices.Contains(v.settled, state) }

// The verbs, without the arguments of those that have some.
var (
	Redrive    = Verb{function: "redrive", Done: "redriven"}
	Cancel     = Verb{function: "cancel", Done: "cancelled", settled: []string{"in_progress", "cancelled"}}
	RunNow     = Verb{function: "run_now", Done: "made due", settled: []string{"ready", "waiting"}}
	Reschedule = Verb{function: "reschedule", Done: "rescheduled", settled: UnbegunStates}
	Discard    = Verb{function: "discard", Done: "discarded", settled: []string{"cancelled"}}
	Delete     = Verb{function: "delete", Done: "deleted"}
	Unblock    = Verb{function: "unblock", Done: "unblocked", settled: []string{"failed"}}
)

// The states of rows that can be rescheduled, cancelled and deleted. Expired rows count as in progress.
var (
	UnbegunStates = []string{"ready", "scheduled", "waiting"}
	LiveStates    = append(slices.Clone(UnbegunStates), "in_progress")
	EndedStates   = []string{"done", "failed", "cancelled"}
)

// A Decision is what became of a row that was named.
type Decision struct {
	ID      uuid.UUID
	Changed bool
	Result  string // its state
	Why     string // why it was not changed
}

// Decide calls the verb's function in a transaction of its own.
func (d *DB) Decide(ctx context.Context, t *workqueue.Table, v Verb, ids []uuid.UUID) (all []Decision,
	err error) {
	spec := t.Spec()
	query := "SELECT id, changed, result, coalesce(why, '') FROM " +
		pgx.Identifier{spec.Schema, spec.Table + "_" + v.function}.Sanitize() + "($1::uuid[]"
	for i := range v.Args {
		query += fmt.Sprintf(", $%d", i+2)
	}
	err = d.Write(ctx, func(tx workqueue.Tx) error {
		return tx.Query(ctx, func(scan func(...any) error) error {
			var one Decision
			err := scan(&one.ID, &one.Changed, &one.Result, &one.Why)
			all = append(all, one)
			return err
		}, query+")", append([]any{ids}, v.Args...)...)
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23505" { // unique_violation
		err = fmt.Errorf("another row of %s took the unique value of one of these rows meanwhile, so none was %s: "+
			"repeat the command: %w", t.Name(), v.Done, err)
	}
	return all, err
}

// Changed counts the rows that were changed.
func Changed(all []Decision) (n int) {
	for _, one := range all {
		if one.Changed {
			n++
		}
	}
	return n
}
