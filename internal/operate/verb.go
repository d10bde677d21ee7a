package operate

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Batch is how many rows one call of a verb changes.
const Batch = 1000

// A Verb is a function of the database by which an operator decides about rows.
type Verb struct {
	Done string // what it did to the rows, such as "redriven"
	Args []any  // beside the ids

	States  []string // of rows about which it decides, as [Listings] has them
	Name    string   // of its function, behind the table's name
	settled []string // the states in which it leaves rows alone because they are as intended
}

// Settled tells whether the verb leaves a row in the state alone because it is as intended, for example because the
// verb was repeated.
func (v Verb) Settled(state string) bool { return slices.Contains(v.settled, state) }

// The verbs, without the arguments of those that have some.
var (
	Redrive = Verb{Name: "redrive", Done: "redriven", States: []string{"failed", "cancelled"}}
	Cancel  = Verb{Name: "cancel", Done: "cancelled", States: append(slices.Clone(LiveStates), "expired"),
		settled: []string{"in_progress", "cancelled"}}
	RunNow = Verb{Name: "run_now", Done: "made due", States: []string{"scheduled"},
		settled: []string{"ready", "waiting"}}
	Reschedule = Verb{Name: "reschedule", Done: "rescheduled", States: UnbegunStates, settled: UnbegunStates}
	Discard    = Verb{Name: "discard", Done: "discarded", States: []string{"failed"}, settled: []string{"cancelled"}}
	Delete     = Verb{Name: "delete", Done: "deleted", States: EndedStates}
	Unblock    = Verb{Name: "unblock", Done: "unblocked", States: []string{"failed"}, settled: []string{"failed"}}
)

// Verbs are the verbs by their names.
var Verbs = map[string]Verb{"redrive": Redrive, "cancel": Cancel, "run_now": RunNow, "reschedule": Reschedule,
	"discard": Discard, "delete": Delete, "unblock": Unblock}

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

// maxIDs is how many ids the audit keeps of those that were named together.
const maxIDs = 100

// aboutRows is what the audit says of rows that were named.
type aboutRows struct {
	IDs   []uuid.UUID `json:"ids"`             // the first of them
	Named int         `json:"named,omitempty"` // how many there were, if not all are here
	Args  []any       `json:"args,omitempty"`
}

// Decide calls the verb's function in a transaction of its own, with the row of the audit. Unless parts is nil, rows
// outside of these parts of the table are not there, see [Layout.DividedBy].
func (d *DB) Decide(ctx context.Context, t *workqueue.Table, v Verb, ids []uuid.UUID, parts []string) (all []Decision,
	err error) {
	within, err := d.within(ctx, t, parts)
	if err != nil {
		return nil, err
	}
	about := aboutRows{IDs: ids, Args: v.Args}
	if len(ids) > maxIDs {
		about.IDs, about.Named = ids[:maxIDs], len(ids)
	}
	a := Act{Verb: v.Name, Target: t.Spec().Table, About: about}
	err = d.Act(ctx, a, func(tx workqueue.Tx) (n int, err error) {
		all, err = within.decide(ctx, tx, t, v, ids)
		return Changed(all), err
	})
	return all, explained(t, v, err)
}

// decide calls the verb's function.
func decide(ctx context.Context, tx workqueue.Tx, t *workqueue.Table, v Verb, ids []uuid.UUID) (all []Decision,
	err error) {
	query := "SELECT id, changed, result, coalesce(why, '') FROM " + side(t.Spec(), "_"+v.Name) + "($1::uuid[]"
	for i := range v.Args {
		query += fmt.Sprintf(", $%d", i+2)
	}
	err = tx.Query(ctx, func(scan func(...any) error) error {
		var one Decision
		err := scan(&one.ID, &one.Changed, &one.Result, &one.Why)
		all = append(all, one)
		return err
	}, query+")", append([]any{ids}, v.Args...)...)
	return all, err
}

// explained says what to do if a row cannot be changed because of another.
func explained(t *workqueue.Table, v Verb, err error) error {
	if postgres.IsTaken(err) {
		return fmt.Errorf("another row of %s took the unique value of one of these rows meanwhile, so none was %s: "+
			"repeat the command: %w", t.Name(), v.Done, err)
	}
	return err
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
